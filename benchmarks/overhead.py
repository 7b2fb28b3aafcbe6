"""The host's time for a call: from Python to the launched kernels, on tensors so small that the GPU
keeps up."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

import torch

# Fewer launches than a stream's queue holds, so that no call waits for the GPU.
CALLS = 100


def host_microseconds(
    candidates: Mapping[str, Callable[[], object]], rounds: int = 50, warm_up: int = 20
) -> dict[str, float]:
    """The median over `rounds` of the mean time of CALLS calls of each candidate, in turns."""
    for call in candidates.values():
        for _ in range(warm_up):
            call()
    samples: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, call in candidates.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(CALLS):
                call()
            samples[name].append((time.perf_counter() - start) / CALLS * 1e6)
    torch.cuda.synchronize()
    return {name: statistics.median(times) for name, times in samples.items()}
