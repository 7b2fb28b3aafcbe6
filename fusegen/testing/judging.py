"""Judgements of one result: its type, its memory, its elements, its repeatability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor

from fusegen.testing.bounds import Bound


class Direction(Enum):
    """Which of a model's operators failed."""

    FORWARD = "forward"
    BACKWARD = "backward"


@dataclass(frozen=True)
class Finding:
    """What is wrong: a headline and the details, in the user's terms, and in which direction."""

    headline: str
    details: str = ""
    direction: Direction = Direction.FORWARD

    def __str__(self) -> str:
        shown = "in the backward: " if self.direction is Direction.BACKWARD else ""
        return f"{shown}{self.headline}\n{self.details}".strip()


def judge(bound: Bound, result: Tensor) -> Finding | None:
    """Whether a result is within its bound: if not, where it is furthest off."""
    wrong = bound.violations(result)
    count = int(wrong.sum())
    if not count:
        return None
    place = _unflatten(int(torch.where(wrong, bound.excess(result), -1.0).argmax()), result.shape)
    got, wanted = result[place].item(), bound.exact[place].item()
    details = f"at {list(place)}: {got!r}, float64 reference {wanted!r}"
    if result.is_floating_point():
        details += f", allowed difference {bound.allowed[place].item():.3g}"
    return Finding(f"{bound.name}: {count} of {result.numel()} elements are wrong", details)


def wrong_type(name: str, result: Tensor, peer: Tensor) -> Finding | None:
    if result.shape != peer.shape:
        return Finding(f"{name} has shape {list(result.shape)}, not {list(peer.shape)}")
    if result.dtype != peer.dtype:
        return Finding(f"{name} is {result.dtype}, not {peer.dtype}")
    return None


def shared(name: str, result: Tensor, tensors: Sequence[Tensor]) -> Finding | None:
    own = result.untyped_storage().data_ptr()
    if result.numel() and any(own == tensor.untyped_storage().data_ptr() for tensor in tensors):
        return Finding(f"{name} shares memory with an argument")
    return None


def unstable(name: str, first: Tensor, second: Tensor) -> Finding | None:
    if torch.equal(storage_bytes(first), storage_bytes(second)):
        return None
    return Finding(f"{name} differs from one run to the next")


def _unflatten(position: int, shape: Sequence[int]) -> tuple[int, ...]:
    place = []
    for size in reversed(shape):
        place.append(position % size)
        position //= size
    return tuple(reversed(place))


def storage_bytes(tensor: Tensor) -> Tensor:
    """All of a tensor's storage, gaps included."""
    storage = tensor.untyped_storage()
    view = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return view.set_(storage, 0, (storage.nbytes(),), (1,)).clone()
