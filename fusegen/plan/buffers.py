"""Tensors in device memory that kernels read and write."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Shape, TensorType
from fusegen.ir.integers import Integer
from fusegen.ops.record import Monoid


class BufferRole(Enum):
    """Who owns a buffer: the caller, the result, or one call's workspace."""

    ARGUMENT = "argument"
    RESULT = "result"
    WORKSPACE = "workspace"


@dataclass(frozen=True)
class Buffer:
    """A tensor in memory. Arguments come with any strides; all others are contiguous."""

    name: str
    role: BufferRole
    type: TensorType

    @property
    def shape(self) -> Shape:
        """The sizes of its dimensions."""
        return self.type.shape

    @property
    def dtype(self) -> DType:
        """Its element type in memory."""
        return self.type.dtype

    @property
    def bytes(self) -> Integer:
        """How much memory its elements take."""
        return self.type.count * self.type.dtype.itemsize


def workspace(name: str, shape: Shape, dtype: DType, taken: set[str]) -> Buffer:
    """A workspace whose name begins so and is none of `taken`, which it joins."""
    while name in taken:
        name = f"{name}_"
    taken.add(name)
    return Buffer(name, BufferRole.WORKSPACE, TensorType(shape, dtype))


STATE_FIELDS: dict[Monoid, int] = {
    Monoid.SUM: 1,
    Monoid.PRODUCT: 1,
    Monoid.MAXIMUM: 1,
    Monoid.MINIMUM: 1,
    Monoid.ANY: 1,
    Monoid.ALL: 1,
    Monoid.LOG_SUM_EXP: 2,
    Monoid.MEAN: 4,
    Monoid.MOMENTS: 4,
    Monoid.ARGMAX: 2,
    Monoid.ARGMIN: 2,
}


def state_bytes(monoid: Monoid, accumulator: DType) -> int:
    """The size of a reduction's state in memory: the structs in `reduce.cuh` assert the same.

    The position that an argmax keeps is an int64, which also aligns its value.
    """
    if monoid in (Monoid.ANY, Monoid.ALL):
        return DType.BOOL.itemsize
    item = 8 if monoid in (Monoid.ARGMAX, Monoid.ARGMIN) else accumulator.itemsize
    return STATE_FIELDS[monoid] * item
