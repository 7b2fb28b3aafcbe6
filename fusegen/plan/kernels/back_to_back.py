"""Products of what is made, element by element, of other products, whose results stay in registers.

A first product's columns are the depth of the second ones: this dim is called the middle.
"""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.ir.integers import Integer
from fusegen.plan.buffers import Buffer
from fusegen.plan.expressions import Expression, Load
from fusegen.plan.kernels.attention import FRAGMENT
from fusegen.plan.kernels.base import WARP, KernelPlan
from fusegen.plan.kernels.epilogues import ElementEpilogue
from fusegen.plan.kernels.loader import WARPGROUP, Loader
from fusegen.plan.kernels.matrix_view import MatrixView


@dataclass(frozen=True)
class BackToBackAxes:
    """The loop variables over their sizes: batch, row of first and second products, and middle."""

    batch: Integer
    row: Integer
    middle: Integer
    batches: Integer
    rows: Integer
    middles: Integer


@dataclass(frozen=True)
class BackToBackTile:
    """What a block works on: 16 rows for each of `warps`, `middles` at a time. So many `blocks`
    share a multiprocessor at least. Shared memory has the middles of so many `stages`; with a
    `loader` a warpgroup more brings them. What operands are made of beside products is loaded ahead
    where it takes no more than `met_registers` of a thread."""

    warps: int
    blocks: int
    middles: int
    met_registers: int
    stages: int
    loader: Loader | None = None

    @property
    def rows(self) -> int:
        """The rows of the results that a block computes at a time."""
        return FRAGMENT * self.warps

    @property
    def threads(self) -> int:
        """The threads of a block."""
        return (self.warps + (WARPGROUP if self.loader else 0)) * WARP

    @property
    def warpgroups(self) -> int:
        """The warpgroups that multiply."""
        return self.warps // WARPGROUP


@dataclass(frozen=True)
class NarrowOperand:
    """An operand that has few columns: its element at (batch, row or middle, `column`), and where
    it lies as a matrix with rows or middles as lines, if it is one."""

    load: Load
    column: Integer
    view: MatrixView | None

    @property
    def columns(self) -> int:
        """How many there are."""
        extent = self.column.alone.extent
        assert extent is not None and extent.constant is not None, "it is known to be narrow"
        return extent.constant

    @property
    def width(self) -> int:
        """The columns of its tile: whole fragments."""
        return -(-self.columns // FRAGMENT) * FRAGMENT


@dataclass(frozen=True)
class FirstProduct:
    """A product of the rows of `left` and the middles of an operand, number `right` of those that
    the plan has."""

    left: NarrowOperand
    right: int


@dataclass(frozen=True)
class SecondProduct:
    """A product of `operand`, an element at (row, middle) made of first products, and of the
    columns of an operand, number `right` of those that the plan has. A thread has `pair`
    neighbouring columns for the `epilogue`."""

    operand: Expression
    right: int
    pair: int
    epilogue: ElementEpilogue


@dataclass(frozen=True)
class BackToBackPlan(KernelPlan):
    """First products that stay in registers, and second ones of what is made of them.

    `rights` come to shared memory a tile of middles at a time, each for all products that have it.
    Each thread holds first products of `run` neighbouring middles. On Hopper's tensor cores a block
    works on the `warpgroup_tile`, on others on the `warp_tile`.
    """

    axes: BackToBackAxes
    warp_tile: BackToBackTile
    warpgroup_tile: BackToBackTile
    run: int
    rights: tuple[NarrowOperand, ...]
    firsts: tuple[FirstProduct, ...]
    seconds: tuple[SecondProduct, ...]

    @property
    def written(self) -> tuple[Buffer, ...]:
        """The buffers it fills."""
        return tuple(b for second in self.seconds for b in second.epilogue.written)

    @property
    def operands(self) -> tuple[NarrowOperand, ...]:
        """What is multiplied from memory."""
        return (*(first.left for first in self.firsts), *self.rights)

    @property
    def has_matrices(self) -> bool:
        """Whether all operands are matrices in memory, if their strides allow it."""
        return all(operand.view for operand in self.operands)

    @property
    def made(self) -> tuple[Expression, ...]:
        """What it computes of its first products, and stores of its second ones."""
        operands = (second.operand for second in self.seconds)
        return (*operands, *(v for second in self.seconds for v in second.epilogue.values))

    @property
    def values(self) -> tuple[Expression, ...]:
        """The elements that are multiplied, and what is made of the products."""
        return (*(operand.load for operand in self.operands), *self.made)
