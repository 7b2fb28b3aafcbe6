"""float32 products on the tensor cores, from parts of 16 bits."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.ir.integers import Integer
from fusegen.plan.buffers import Buffer
from fusegen.plan.expressions import Load
from fusegen.plan.kernels.matrix_view import MatrixView


@dataclass(frozen=True)
class SplitOperand:
    """An operand of float32 as float16 parts (`split.cuh`), which a kernel of its own prepares.

    `parts` has the high and then the low parts of `batches` matrices of `lines` lines, each packed
    along K and padded to `pitch`; `scales` has a few numbers for each line.
    """

    load: Load
    depth_contiguous: bool
    batches: Integer
    lines: Integer
    pitch: Integer
    parts: Buffer
    scales: Buffer


@dataclass(frozen=True)
class WideForm:
    """The form of a product of float32 operands whose range is wide, on Hopper's tensor cores:
    `rows` x `columns` of the result a block, from three bfloat16 parts of each element
    (`wide_split.cuh`). A thread of the epilogue holds `neighbours` columns at a time."""

    rows: int
    columns: int
    neighbours: int
    left: MatrixView
    right: MatrixView


@dataclass(frozen=True)
class Split:
    """float32 products as three of float16 parts, whose sum is taken into float32 registers every
    `promotion` of K; what rounding these loses is kept if `is_compensated`. With `few_apart`, lines
    of few elements are for a kernel of their own. Where parts cannot represent what is multiplied,
    `flags` has marks for parts of a tile, which `wide` computes again, if it is there and can read
    the operands, and the shared-memory tile what is left."""

    left: SplitOperand
    right: SplitOperand
    promotion: int
    is_compensated: bool
    few_apart: bool
    flags: Buffer
    wide: WideForm | None

    @property
    def written(self) -> tuple[Buffer, ...]:
        """The workspaces it fills."""
        return (
            self.left.parts,
            self.left.scales,
            self.right.parts,
            self.right.scales,
            self.flags,
        )
