"""What the card can do at best, measured in the same run as the candidates."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from benchmarks.case import Precision

Clock = Callable[[Mapping[str, Callable[[], object]]], dict[str, float]]

# Large enough that launches and tails do not count.
COPIED_BYTES = 1 << 30
SIDE = 8192


def bandwidth(clock: Clock, device: str = "cuda", size: int = COPIED_BYTES) -> float:
    """Bytes a second, read and written, of a copy."""
    source = torch.rand(size // 4, device=device)
    (milliseconds,) = clock({"clone": source.clone}).values()
    return 2 * size / milliseconds * 1e3


def product_rate(
    precision: Precision, clock: Clock, device: str = "cuda", side: int = SIDE
) -> float:
    """Operations a second of PyTorch's own product of two square matrices."""
    left, right = (torch.randn(side, side, device=device, dtype=precision.dtype) for _ in range(2))
    with precision.held():
        (milliseconds,) = clock({"product": lambda: left @ right.T}).values()
    return 2 * side**3 / milliseconds * 1e3


def floor_milliseconds(
    ceilings: Mapping[str, float], precision: str, size: int, work: int
) -> float:
    """The least time for `size` bytes and `work` operations of matrix products."""
    seconds = size / ceilings["bandwidth"]
    if work:
        seconds = max(seconds, work / ceilings[precision])
    return seconds * 1e3
