"""What must hold for a generated module on one case."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fusegen.ir.dtypes import DType
from fusegen.runtime.emulation import emulation
from fusegen.runtime.request import Target
from fusegen.testing.bounds import Bound, bounds
from fusegen.testing.case import Case
from fusegen.testing.rounding import TF32_UNIT, Precision
from fusegen.testing.subject import Subject


class Unsuitable(Exception):
    """PyTorch itself refuses the case, such as the greatest of no elements."""


@dataclass(frozen=True)
class Finding:
    """What is wrong: a headline and the details, in the user's terms."""

    headline: str
    details: str = ""

    def __str__(self) -> str:
        return f"{self.headline}\n{self.details}".strip()


def check_case(subject: Subject, case: Case) -> Finding | None:
    """The first thing that is wrong, or None. Raises Unsuitable where there is nothing to compare
    with."""
    tensors = case.draw(subject)
    try:
        eager = subject.reference(tensors)
    except (RuntimeError, IndexError, ValueError) as refusal:
        raise Unsuitable(str(refusal)) from refusal
    before = [_bytes(tensor) for tensor in tensors]
    try:
        first = _run(subject, tensors, case.order)
        second = _run(subject, tensors, case.order + 1)
    except RuntimeError as failure:
        return Finding("the kernels failed", str(failure))
    if any(not torch.equal(b, _bytes(t)) for b, t in zip(before, tensors, strict=True)):
        return Finding("the kernels changed an argument")
    graph = subject.graph(DType(case.dtype))
    limits = bounds(graph, tensors, eager, case.sizes, precision(subject))
    for bound, result, again, peer in zip(limits, first, second, eager, strict=True):
        found = (
            _wrong_type(bound.name, result, peer)
            or _shared(bound.name, result, tensors)
            or judge(bound, result)
            or _unstable(bound.name, result, again)
        )
        if found:
            return found
    return None


def precision(subject: Subject) -> Precision:
    """What the settings at hand let float32 products and convolutions round their operands to."""
    on_gpu = subject.target is Target.CUDA
    mode = torch.get_float32_matmul_precision()
    library_tf32 = on_gpu and torch.backends.cudnn.allow_tf32
    return Precision(
        product={"highest": 0.0, "high": TF32_UNIT, "medium": 2.0**-8}[mode],
        convolution=TF32_UNIT if library_tf32 else 0.0,
    )


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


def _run(subject: Subject, tensors: Sequence[Tensor], order: int) -> tuple[Tensor, ...]:
    if subject.target is Target.EMULATE:
        with emulation(order, check=True):
            return subject.kernels(tensors)
    _poison_free_memory(subject.reference(tensors))
    return subject.kernels(tensors)


def _poison_free_memory(like: Sequence[Tensor]) -> None:
    """Leave NaN in the memory that results will be allocated in, so that what stays unwritten
    shows."""
    for tensor in like:
        filling = math.nan if tensor.is_floating_point() else 113
        torch.empty_like(tensor).fill_(filling)


def _bytes(tensor: Tensor) -> Tensor:
    """All of a tensor's storage, gaps included."""
    storage = tensor.untyped_storage()
    view = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return view.set_(storage, 0, (storage.nbytes(),), (1,)).clone()


def _wrong_type(name: str, result: Tensor, peer: Tensor) -> Finding | None:
    if result.shape != peer.shape:
        return Finding(f"{name} has shape {list(result.shape)}, not {list(peer.shape)}")
    if result.dtype != peer.dtype:
        return Finding(f"{name} is {result.dtype}, not {peer.dtype}")
    return None


def _shared(name: str, result: Tensor, tensors: Sequence[Tensor]) -> Finding | None:
    own = result.untyped_storage().data_ptr()
    if result.numel() and any(own == tensor.untyped_storage().data_ptr() for tensor in tensors):
        return Finding(f"{name} shares memory with an argument")
    return None


def _unstable(name: str, first: Tensor, second: Tensor) -> Finding | None:
    if torch.equal(_bytes(first), _bytes(second)):
        return None
    return Finding(f"{name} differs from one run to the next")


def _unflatten(position: int, shape: Sequence[int]) -> tuple[int, ...]:
    place = []
    for size in reversed(shape):
        place.append(position % size)
        position //= size
    return tuple(reversed(place))
