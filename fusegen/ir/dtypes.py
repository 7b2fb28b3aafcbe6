"""Element types, by PyTorch's names."""

from __future__ import annotations

from enum import Enum


class Kind(Enum):
    """What a dtype counts: the order is that of PyTorch's type promotion."""

    BOOL = 0
    INTEGER = 1
    FLOAT = 2


class DType(Enum):
    """An element type; the value is PyTorch's name for it."""

    BOOL = "bool"
    UINT8 = "uint8"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"

    @property
    def kind(self) -> Kind:
        """Whether it holds truth values, integers or floating-point numbers."""
        if self is DType.BOOL:
            return Kind.BOOL
        return Kind.FLOAT if "float" in self.value else Kind.INTEGER

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type."""
        return self.kind is Kind.FLOAT

    @property
    def itemsize(self) -> int:
        """Bytes an element takes."""
        return (
            1 if self is DType.BOOL else int(self.value.lstrip("abcdefghijklmnopqrstuvwxyz")) // 8
        )

    @property
    def compute(self) -> DType:
        """The type arithmetic is done in: float32 for the 16-bit floats, else the type itself."""
        return DType.FLOAT32 if self in (DType.FLOAT16, DType.BFLOAT16) else self


def promote(first: DType, second: DType) -> DType:
    """PyTorch's `torch.promote_types` for two tensors of at least one dimension."""
    if first is second:
        return first
    low, high = sorted((first, second), key=lambda d: (d.kind.value, d.itemsize))
    if low.kind is not high.kind:
        return high
    if {low, high} == {DType.FLOAT16, DType.BFLOAT16}:
        return DType.FLOAT32
    if (low is DType.UINT8 and high is DType.INT8) or (low is DType.INT8 and high is DType.UINT8):
        return DType.INT16
    return high
