"""Matrix products."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.ir.dtypes import DType
from fusegen.ir.integers import Integer
from fusegen.plan.buffers import Buffer
from fusegen.plan.expressions import Expression, Load, WindowLoad
from fusegen.plan.kernels.base import KernelPlan
from fusegen.plan.kernels.epilogues import Epilogue
from fusegen.plan.kernels.product_forms import (
    MmaForm,
    SharedDepth,
    SkinnyForm,
    TileKind,
    WgmmaForm,
)

# What a thread reads of shared memory at a time.
ACCESS_BYTES = 16


@dataclass(frozen=True)
class Tile:
    """The block tile of a matrix product: `rows` x `columns` of the result, `depth` of K a step.

    `used_columns` of the columns are kept: the largest multiple of the group size, where an
    epilogue works on groups of columns.
    """

    rows: int
    columns: int
    depth: int
    used_columns: int

    @property
    def pitch(self) -> int:
        """Elements from row to row of a tile in shared memory: an odd number spreads a column over
        all banks."""
        return self.columns + 1


@dataclass(frozen=True)
class SharedTile(Tile):
    """A tile outside the tensor cores, for which both operands go through shared memory. Each
    thread has `own_rows` x `own_columns` of the result (`shared_tile.cuh`)."""

    own_rows: int
    own_columns: int

    @property
    def threads(self) -> int:
        """The threads of a block."""
        return self.rows // self.own_rows * (self.columns // self.own_columns)

    def operand_bytes(self, itemsize: int) -> int:
        """The shared memory of two steps of both operands: one is multiplied while the other is
        brought. Between lines there is room for an access."""
        lines = self.rows + self.columns
        return 2 * self.depth * (lines * itemsize + 2 * ACCESS_BYTES)


@dataclass(frozen=True)
class ProductAxes:
    """The loop variables of a matrix product: batch, row, column and depth, over their sizes."""

    batch: Integer
    row: Integer
    column: Integer
    depth: Integer
    batches: Integer
    rows: Integer
    columns: Integer
    depths: Integer


@dataclass(frozen=True)
class TunedRows:
    """For `least` to `most` rows, this kind of tiles was timed to be the quickest."""

    least: int
    most: int
    kind: TileKind


@dataclass(frozen=True)
class ProductPlan(KernelPlan):
    """A batched matrix product on a shared-memory tile, and what is done with each element.

    `left` and `right` are the operands' elements at (batch, row, depth) and (batch, depth,
    column); the flags tell whether neighbours in depth are neighbours in memory, and whether they
    lie evenly apart, whatever the strides. Where `tensor_cores`, `skinny` or `mma` are given, the
    launcher takes that form for tensors and devices that allow it. For some sizes one of the
    `alternatives` stands in for `tensor_cores`: the same on other tiles, the widest first, where
    their waves end sooner on the device, but for those numbers of rows that are `tuned`; of a form
    that is split, the same with a K that is shared, where it can be. With `skinny_first` that form
    goes before all others.

    With a prologue, what is multiplied is made of the operand's element as it is loaded.
    """

    axes: ProductAxes
    left: Load
    right: Load
    left_depth_contiguous: bool
    right_depth_contiguous: bool
    left_is_even: bool
    right_is_even: bool
    accumulator: DType
    tile: SharedTile
    epilogue: Epilogue
    tensor_cores: WgmmaForm | None = None
    alternatives: tuple[WgmmaForm, ...] = ()
    skinny: SkinnyForm | None = None
    mma: MmaForm | None = None
    skinny_first: bool = True
    tuned: tuple[TunedRows, ...] = ()
    left_prologue: Expression | None = None
    right_prologue: Expression | None = None
    shared_depth: SharedDepth | None = None

    @property
    def written(self) -> tuple[Buffer, ...]:
        """The buffers it fills."""
        split = self.tensor_cores.split if self.tensor_cores else None
        sums = (self.shared.sums,) if self.shared else ()
        return (*self.epilogue.written, *(split.written if split else ()), *sums)

    @property
    def shared(self) -> SharedDepth | None:
        """How K is shared through memory on the tiles where it may be."""
        shared = [form.shared for form in self.tensor_forms if form.shared]
        return shared[0] if shared else self.shared_depth

    @property
    def skipped(self) -> WindowLoad | None:
        """The operand, if any, some of whose elements have no part in a result, whatever they
        meet."""
        for load in (self.left, self.right):
            if isinstance(load, WindowLoad) and load.windows.skips_margins:
                return load
        return None

    @property
    def tensor_forms(self) -> tuple[WgmmaForm, ...]:
        """All forms for Hopper's tensor cores."""
        return (self.tensor_cores, *self.alternatives) if self.tensor_cores else ()

    @property
    def values(self) -> tuple[Expression, ...]:
        """Its operands' elements, and what prologues and the epilogue compute."""
        return (self.left, self.right, *self.prologues, *self.epilogue.values)

    @property
    def prologues(self) -> tuple[Expression, ...]:
        """What is made of operands as they are loaded."""
        return tuple(p for p in (self.left_prologue, self.right_prologue) if p is not None)
