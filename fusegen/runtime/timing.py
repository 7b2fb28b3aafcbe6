"""Timing on a GPU: all candidates in one run, the cache flushed before each call, medians."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping

import torch

# Clock cycles that a call has to queue its launches: about half a millisecond.
QUEUE_CYCLES = 1_000_000
# More than any L2 cache of today, in bytes.
FLUSH_BYTES = 256 * 1024 * 1024


class CacheFlush:
    """Overwrites the L2 cache by a copy, which is no kernel to a profiler."""

    def __init__(self) -> None:
        self._source, self._target = (
            torch.empty(FLUSH_BYTES // 2, dtype=torch.uint8, device="cuda") for _ in range(2)
        )

    def __call__(self) -> None:
        self._target.copy_(self._source)


def medians_in_turns(
    candidates: Mapping[str, Callable[[], object]],
    sample: Callable[[Callable[[], object]], float],
    rounds: int,
    warm_up: int,
) -> dict[str, float]:
    """The median of `rounds` samples of each candidate. They take turns, so that all see the same
    clocks, after `warm_up` calls of each."""
    for call in candidates.values():
        for _ in range(warm_up):
            call()
    samples: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, call in candidates.items():
            samples[name].append(sample(call))
    return {name: statistics.median(times) for name, times in samples.items()}


def time_together(
    candidates: Mapping[str, Callable[[], object]], rounds: int = 30, warm_up: int = 5
) -> dict[str, float]:
    """The median time of a call of each candidate, in milliseconds.

    The L2 cache is overwritten before each call, outside the timed window. The GPU then waits until
    the call's launches are queued, so that what is timed is the GPU's work and not Python's.
    """
    flush = CacheFlush()

    def sample(call: Callable[[], object]) -> float:
        flush()
        torch.cuda._sleep(QUEUE_CYCLES)  # type: ignore[no-untyped-call]
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        call()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end))

    return medians_in_turns(candidates, sample, rounds, warm_up)
