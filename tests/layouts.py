"""The same values in memory laid out in every way a caller may hand them over."""

from __future__ import annotations

from collections.abc import Callable

import torch

Layout = Callable[[torch.Tensor], torch.Tensor]


def contiguous(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous()


def reversed_dims(x: torch.Tensor) -> torch.Tensor:
    """Dims in the opposite order in memory: a transposed matrix."""
    order = tuple(reversed(range(x.dim())))
    return x.permute(order).contiguous().permute(order)


def unaligned(x: torch.Tensor) -> torch.Tensor:
    """Contiguous, but one element behind an aligned address."""
    storage = torch.empty(x.numel() + 1, dtype=x.dtype)
    moved = storage[1:].view(x.shape)
    return moved.copy_(x)


def every_other(x: torch.Tensor) -> torch.Tensor:
    """Gaps between neighbours."""
    wide = torch.empty((*x.shape, 2), dtype=x.dtype)
    return wide.select(-1, 0).copy_(x)


def gaps_between_rows(x: torch.Tensor) -> torch.Tensor:
    """Rows that lie together, with unused columns behind each."""
    if not x.dim():
        return x
    wide = torch.empty((*x.shape[:-1], x.shape[-1] + 3), dtype=x.dtype)
    return wide.narrow(-1, 0, x.shape[-1]).copy_(x)


def expanded(x: torch.Tensor) -> torch.Tensor:
    """One value repeated along the first dim, by a stride of 0; this changes the values."""
    return x[:1].expand_as(x) if x.dim() and x.shape[0] else x


def channels_last(x: torch.Tensor) -> torch.Tensor:
    """Dim 1 innermost, as torch.channels_last has it for images; any rank from 2 on."""
    if x.dim() < 2:
        return x
    order = (0, *range(2, x.dim()), 1)
    back = (0, x.dim() - 1, *range(1, x.dim() - 1))
    return x.permute(order).contiguous().permute(back)


LAYOUTS: tuple[Layout, ...] = (
    contiguous,
    reversed_dims,
    unaligned,
    every_other,
    gaps_between_rows,
    expanded,
    channels_last,
)
