"""The host's time for a call: from Python to the launched kernels, on tensors so small that the GPU
keeps up."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import torch

from fusegen.runtime.timing import medians_in_turns

# Fewer launches than a stream's queue holds, so that no call waits for the GPU.
CALLS = 100


def host_microseconds(
    candidates: Mapping[str, Callable[[], object]], rounds: int = 50, warm_up: int = 20
) -> dict[str, float]:
    """The median over `rounds` of the mean time of CALLS calls of each candidate, in turns."""

    def sample(call: Callable[[], object]) -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        return (time.perf_counter() - start) / CALLS * 1e6

    medians = medians_in_turns(candidates, sample, rounds, warm_up)
    torch.cuda.synchronize()
    return medians
