"""Attention: sums of values, weighted by the softmax of scores, which are products themselves."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.ir.integers import Integer
from fusegen.plan.buffers import Buffer
from fusegen.plan.expressions import Expression, Load
from fusegen.plan.kernels.base import WARP, KernelPlan
from fusegen.plan.kernels.epilogues import ElementEpilogue
from fusegen.plan.kernels.loader import WARPGROUP, Loader
from fusegen.plan.kernels.matrix_view import MatrixView
from fusegen.plan.kernels.stores import Store

# The rows of a fragment of the tensor cores.
FRAGMENT = 16
# The tiles of an operand that a block has by warps: one is multiplied while the next is brought.
STAGES = 2
# Neighbouring keys whose scores a thread works on at a time, where keys come in an order for that.
RUN = 8


@dataclass(frozen=True)
class AttentionAxes:
    """The loop variables over their sizes: batch, row of the queries and of the result, key, depth
    of queries and keys, and column of the values and of the result."""

    batch: Integer
    row: Integer
    key: Integer
    depth: Integer
    column: Integer
    batches: Integer
    rows: Integer
    keys: Integer
    depths: Integer
    columns: Integer


@dataclass(frozen=True)
class AttentionTile:
    """What a block works on: `warp_rows` rows for each of `warps`, `keys` at a time; `depth` and
    `columns` are all there are, rounded up to whole fragments. So many `blocks` share a
    multiprocessor at least.

    Shared memory has the keys and values of so many `stages`. With a `loader` a warpgroup more
    brings them. A step that `overlaps` multiplies the values of the step before, too. What scores
    are made of beside products is loaded ahead where it takes no more than `met_registers` of a
    thread."""

    warp_rows: int
    warps: int
    blocks: int
    keys: int
    depth: int
    columns: int
    met_registers: int
    stages: int
    loader: Loader | None = None
    overlaps: bool = False

    @property
    def rows(self) -> int:
        """The rows of the result that a block computes at a time."""
        return self.warp_rows * self.warps

    @property
    def threads(self) -> int:
        """The threads of a block."""
        return (self.warps + (WARPGROUP if self.loader else 0)) * WARP

    @property
    def warpgroups(self) -> int:
        """The warpgroups that multiply."""
        return self.warps // WARPGROUP


@dataclass(frozen=True)
class AttentionPlan(KernelPlan):
    """Attention whose scores are never in memory.

    `queries`, `keys` and `values` are their elements at (batch, row, depth), (batch, key, depth)
    and (batch, key, column), and `views` these as matrices, where they are some. A `score` is made
    of the product of a query and a key; the softmax is that of `factor` times the scores, above 0
    and no more than 1. Each thread holds scores of `run` neighbouring keys, and `pair` neighbouring
    columns for the `epilogue`. On Hopper's tensor cores a block works on the `warpgroup_tile`, on
    others on the `warp_tile`.
    """

    axes: AttentionAxes
    warp_tile: AttentionTile
    warpgroup_tile: AttentionTile
    run: int
    pair: int
    queries: Load
    keys: Load
    values_read: Load
    views: tuple[MatrixView, MatrixView, MatrixView] | None
    score: Expression
    factor: float
    greatest: Expression
    total: Expression
    epilogue: ElementEpilogue
    statistics: tuple[Store, ...]

    @property
    def written(self) -> tuple[Buffer, ...]:
        """The buffers it fills."""
        return (*self.epilogue.written, *(store.buffer for store in self.statistics))

    @property
    def has_matrices(self) -> bool:
        """Whether all operands are matrices in memory, if their strides allow it."""
        return self.views is not None

    @property
    def operands(self) -> tuple[Load, Load, Load]:
        """The elements that are multiplied."""
        return (self.queries, self.keys, self.values_read)

    @property
    def results(self) -> tuple[Expression, ...]:
        """What it stores."""
        return (*self.epilogue.values, *(store.value for store in self.statistics))

    @property
    def values(self) -> tuple[Expression, ...]:
        """What it computes: its operands' elements, a score, and the results."""
        return (*self.operands, self.score, *self.results)
