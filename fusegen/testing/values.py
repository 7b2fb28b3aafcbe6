"""Tensors of values that kernels get wrong, drawn from a seed."""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum

import torch
from torch import Generator, Tensor


class Values(Enum):
    """What a tensor is filled with."""

    NORMAL = "normal"
    UNIFORM = "uniform in [0, 1)"
    OFFSET = "noise of 0.01 about 1e4"  # one-pass variances cancel
    CONSTANT_ROWS = "one number a row"
    ZEROS = "zeros of both signs"
    INTEGERS = "small whole numbers"  # ties, and the edges of piecewise functions
    HUGE = "near the type's greatest number"
    TINY = "near and below the type's least normal number"
    WIDE = "magnitudes over the type's whole range"
    SPECIAL = "normal, with NaN and infinities among them"
    INFINITE_ROWS = "normal, with rows of nothing but -inf"


def filled(
    values: Values, shape: tuple[int, ...], dtype: torch.dtype, seed: int, device: str
) -> Tensor:
    """A contiguous tensor of these values: the same for the same arguments, on every device.

    A dtype without fractions gets small whole numbers or truth values whatever is asked.
    """
    generator = Generator().manual_seed(seed)
    if not dtype.is_floating_point:
        highest = 2 if dtype is torch.bool else 10
        return torch.randint(0, highest, shape, generator=generator).to(device, dtype)
    return _FILLINGS[values](shape, dtype, generator).to(dtype).to(device)


Filling = Callable[[tuple[int, ...], torch.dtype, Generator], Tensor]


def _normal(shape: tuple[int, ...], dtype: torch.dtype, generator: Generator) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=generator)


def _uniform(shape: tuple[int, ...], dtype: torch.dtype, generator: Generator) -> Tensor:
    return torch.rand(shape, dtype=torch.float64, generator=generator)


def _offset(shape: tuple[int, ...], dtype: torch.dtype, generator: Generator) -> Tensor:
    return 1e4 + 0.01 * _normal(shape, dtype, generator)


def _constant_rows(shape: tuple[int, ...], dtype: torch.dtype, generator: Generator) -> Tensor:
    return _normal((*shape[:-1], *(1 for _ in shape[-1:])), dtype, generator).expand(shape)


def _zeros(shape: tuple[int, ...], dtype: torch.dtype, generator: Generator) -> Tensor:
    return torch.zeros(shape, dtype=torch.float64).copysign(_normal(shape, dtype, generator))


def _integers(shape: tuple[int, ...], dtype: torch.dtype, generator: Generator) -> Tensor:
    return torch.randint(-4, 5, shape, generator=generator).double()


def _huge(shape: tuple[int, ...], dtype: torch.dtype, generator: Generator) -> Tensor:
    magnitude = torch.finfo(dtype).max * (0.25 + 0.75 * _uniform(shape, dtype, generator))
    return magnitude.copysign(_normal(shape, dtype, generator))


def _tiny(shape: tuple[int, ...], dtype: torch.dtype, generator: Generator) -> Tensor:
    return torch.finfo(dtype).tiny * _normal(shape, dtype, generator)


def _wide(shape: tuple[int, ...], dtype: torch.dtype, generator: Generator) -> Tensor:
    low, high = math.log2(torch.finfo(dtype).tiny), math.log2(torch.finfo(dtype).max)
    exponent = low + (high - low) * _uniform(shape, dtype, generator)
    return torch.exp2(exponent.clamp(-1000, 1000)).copysign(_normal(shape, dtype, generator))


def _special(shape: tuple[int, ...], dtype: torch.dtype, generator: Generator) -> Tensor:
    values = _normal(shape, dtype, generator)
    where = torch.randint(0, 24, shape, generator=generator)
    for code, special in enumerate((math.nan, math.inf, -math.inf)):
        values = values.masked_fill(where == code, special)
    return values


def _infinite_rows(shape: tuple[int, ...], dtype: torch.dtype, generator: Generator) -> Tensor:
    rows = torch.randint(0, 2, shape[:-1], generator=generator).bool()
    values = _normal(shape, dtype, generator)
    return torch.where(rows[..., None], -math.inf, values) if shape else values


_FILLINGS: dict[Values, Filling] = {
    Values.NORMAL: _normal,
    Values.UNIFORM: _uniform,
    Values.OFFSET: _offset,
    Values.CONSTANT_ROWS: _constant_rows,
    Values.ZEROS: _zeros,
    Values.INTEGERS: _integers,
    Values.HUGE: _huge,
    Values.TINY: _tiny,
    Values.WIDE: _wide,
    Values.SPECIAL: _special,
    Values.INFINITE_ROWS: _infinite_rows,
}
