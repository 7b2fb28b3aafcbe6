"""The same values laid out in memory in the ways in which a caller may hand them over."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import torch
from torch import Tensor


class Layout(Enum):
    """How a tensor lies in memory."""

    CONTIGUOUS = "contiguous"
    REVERSED_DIMS = "dims in the opposite order"  # a transposed matrix
    UNALIGNED = "one element behind an aligned address"
    GAPS_BETWEEN_ELEMENTS = "every other element of a wider tensor"
    GAPS_BETWEEN_ROWS = "a slice of longer rows"
    CHANNELS_LAST = "dim 1 innermost"
    EXPANDED = "the first row repeated by a stride of 0"  # changes the values
    REPEATED = "the first element repeated by strides of 0"  # so does this


def laid_out(tensor: Tensor, layout: Layout) -> Tensor:
    """A tensor with that layout, where its rank has it, and, except for EXPANDED and REPEATED, the
    same values.

    Memory that does not belong to the tensor holds NaN, or 113 in integers, so that reading it
    shows.
    """
    return _LAYOUTS[layout](tensor)


def _filled(shape: tuple[int, ...], like: Tensor) -> Tensor:
    filling = float("nan") if like.is_floating_point() else 113
    return torch.full(shape, filling, device=like.device).to(like.dtype)


def _permuted(x: Tensor, order: tuple[int, ...]) -> Tensor:
    back = tuple(order.index(dim) for dim in range(x.dim()))
    return x.permute(order).contiguous().permute(back)


def _reversed(x: Tensor) -> Tensor:
    return _permuted(x, tuple(reversed(range(x.dim()))))


def _unaligned(x: Tensor) -> Tensor:
    return _filled((x.numel() + 1,), x)[1:].view(x.shape).copy_(x)


def _gaps_between_elements(x: Tensor) -> Tensor:
    return _filled((*x.shape, 2), x).select(-1, 0).copy_(x)


def _gaps_between_rows(x: Tensor) -> Tensor:
    if not x.dim():
        return x.clone()
    return _filled((*x.shape[:-1], x.shape[-1] + 3), x).narrow(-1, 0, x.shape[-1]).copy_(x)


def _channels_last(x: Tensor) -> Tensor:
    return _permuted(x, (0, *range(2, x.dim()), 1)) if x.dim() >= 2 else x.clone()


def _expanded(x: Tensor) -> Tensor:
    return x[:1].clone().expand_as(x) if x.dim() and x.shape[0] else x.clone()


def _repeated(x: Tensor) -> Tensor:
    return x.flatten()[0].clone().expand_as(x) if x.numel() else x.clone()


_LAYOUTS: dict[Layout, Callable[[Tensor], Tensor]] = {
    Layout.CONTIGUOUS: lambda x: x.contiguous().clone(),
    Layout.REVERSED_DIMS: _reversed,
    Layout.UNALIGNED: _unaligned,
    Layout.GAPS_BETWEEN_ELEMENTS: _gaps_between_elements,
    Layout.GAPS_BETWEEN_ROWS: _gaps_between_rows,
    Layout.CHANNELS_LAST: _channels_last,
    Layout.EXPANDED: _expanded,
    Layout.REPEATED: _repeated,
}
