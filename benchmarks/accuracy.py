"""Errors against float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn

# Rows or images that the float64 reference works on at a time, and elements where rows are short.
CHUNK = 16
CHUNK_ELEMENTS = 1 << 22


def exact(module: nn.Module, x: Tensor) -> Tensor:
    """The plain module's result in float64, chunk by chunk along the batch."""
    reference = deepcopy(module).double()
    with torch.no_grad():
        return torch.cat([reference(part.double()) for part in x.split(_rows(x))])


def exact_gradients(module: nn.Module, x: Tensor, gradient: Tensor) -> list[Tensor]:
    """The float64 gradients of the input and of each parameter, for the result's `gradient`."""
    reference = deepcopy(module).double()
    inputs: list[Tensor] = []
    sums: list[Tensor] = []
    for part, incoming in zip(x.split(_rows(x)), gradient.split(_rows(x)), strict=True):
        part = part.detach().double().requires_grad_()
        found = gradients(reference, part, incoming.double())
        inputs.append(found[0])
        sums = [a + b for a, b in zip(sums, found[1:], strict=True)] if sums else found[1:]
    return [torch.cat(inputs), *sums]


def gradients(module: nn.Module, x: Tensor, gradient: Tensor) -> list[Tensor]:
    """A forward and a backward: the gradients of `x`, which requires one, and of each parameter."""
    return list(torch.autograd.grad(module(x), [x, *module.parameters()], gradient))


def relative_error(result: Tensor, truth: Tensor) -> float:
    """The norm of the error over that of the truth; infinite if the result has a NaN."""
    error = (result.detach().double() - truth).norm() / truth.norm()
    return float(error) if torch.isfinite(error) else float("inf")


def greatest_error(results: Sequence[Tensor], truths: Sequence[Tensor]) -> float:
    """The relative error of the worst of several results."""
    return max(relative_error(r, t) for r, t in zip(results, truths, strict=True))


def same_bits(call: Callable[[], Sequence[Tensor]], times: int = 20) -> list[bool]:
    """For each result of a call, whether it has the same bits every time."""
    first = call()
    same = [True] * len(first)
    for _ in range(times - 1):
        same = [s and torch.equal(a, b) for s, a, b in zip(same, first, call(), strict=True)]
    return same


def overwrites_poison(call: Callable[[], Tensor]) -> bool:
    """Whether every element of the result is written: memory that the allocator hands out again
    is filled with NaN before the call."""
    first = call()
    shape, dtype, device = first.shape, first.dtype, first.device
    del first
    poison = [torch.full(shape, float("nan"), dtype=dtype, device=device) for _ in range(3)]
    del poison
    return not bool(torch.isnan(call()).any())


def _rows(x: Tensor) -> int:
    return max(CHUNK, CHUNK_ELEMENTS // max(1, x.numel() // max(1, x.shape[0])))
