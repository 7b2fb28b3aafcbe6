"""The memory that a call needs."""

from __future__ import annotations

import gc
from collections.abc import Callable

import torch


def peak_bytes(call: Callable[[], object]) -> int:
    """The most that PyTorch's allocator has handed out during a call on the current GPU, beyond
    what it had before: results, saved values, workspaces. The second call counts: the first may
    load kernels."""
    call()
    gc.collect()  # what the first call left in cycles must not be freed during the second
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before
