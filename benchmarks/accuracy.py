"""Errors against float64."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import torch
from torch import Tensor, nn

# Rows or images that the float64 reference works on at a time.
CHUNK = 16


def exact(module: nn.Module, x: Tensor) -> Tensor:
    """The plain module's result in float64, chunk by chunk along the batch."""
    reference = deepcopy(module).double()
    with torch.no_grad():
        return torch.cat([reference(part.double()) for part in x.split(CHUNK)])


def relative_error(result: Tensor, truth: Tensor) -> float:
    """The norm of the error over that of the truth; infinite if the result has a NaN."""
    error = (result.double() - truth).norm() / truth.norm()
    return float(error) if torch.isfinite(error) else float("inf")


def is_deterministic(call: Callable[[], Tensor], times: int = 20) -> bool:
    """Whether the same call gives the same bits every time."""
    first = call()
    return all(torch.equal(first, call()) for _ in range(times - 1))


def overwrites_poison(call: Callable[[], Tensor]) -> bool:
    """Whether every element of the result is written: memory that the allocator hands out again
    is filled with NaN before the call."""
    first = call()
    shape, dtype = first.shape, first.dtype
    del first
    poison = [torch.full(shape, float("nan"), dtype=dtype, device="cuda") for _ in range(3)]
    del poison
    return not bool(torch.isnan(call()).any())
