"""What is done with each row of a kernel that works on rows, in phases over its columns."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.ir.dtypes import DType
from fusegen.plan.buffers import Buffer
from fusegen.plan.evaluate import Domain
from fusegen.plan.expressions import Expression, Reduced
from fusegen.plan.kernels.stores import StateStore, Store
from fusegen.plan.tolerance import tolerant


@dataclass(frozen=True)
class ColumnSum:
    """Add `value` to the sum of its column over the rows that a thread works on.

    `buffer` has one sum for each column of each row of sums that blocks leave
    (`RowPlan.sum_rows`).
    """

    buffer: Buffer
    value: Expression


@dataclass(frozen=True)
class PieceSum:
    """Add `value` up over the columns that a warp's threads have of a row, which are those of one
    piece of it or a part of one. `buffer` has one sum for each warp of each row."""

    buffer: Buffer
    value: Expression


@dataclass(frozen=True)
class Kept:
    """A value that one phase computes and later ones read: it stands in the row cache's `slot`."""

    value: Expression
    slot: int


@dataclass(frozen=True)
class Powers:
    """The exponentials `power` of the distances of values from the row's `greatest`, and their
    `total`, where one exchange between threads gives both.

    Each thread takes the distances from the greatest of its own values, which stand in the cache at
    `source`, and leaves the powers at `kept`, if they are needed: times a number that each thread
    has once it knows the row's greatest, they are those of the row.
    """

    greatest: Reduced
    power: Expression
    total: Reduced
    source: Kept
    kept: Kept | None


@dataclass(frozen=True)
class Phase:
    """One pass over a row's columns.

    For each column it reads `reads` from the row cache, computes, writes `writes` to the cache and
    `stores` to memory, adds to `sums` and `pieces`, and feeds `reductions`, whose results exist
    once the phase has ended. With `powers`, the greatest is the only reduction, and their total a
    second result.
    """

    reductions: tuple[Reduced, ...]
    reads: tuple[Kept, ...]
    writes: tuple[Kept, ...]
    stores: tuple[Store, ...]
    sums: tuple[ColumnSum, ...] = ()
    powers: Powers | None = None
    pieces: tuple[PieceSum, ...] = ()

    @property
    def results(self) -> tuple[Reduced, ...]:
        """The reductions that are known when it has ended."""
        return (*self.reductions, *((self.powers.total,) if self.powers else ()))

    @property
    def roots(self) -> tuple[Expression, ...]:
        """What it computes for each column."""
        reduced = (reduction.operand for reduction in self.reductions)
        added = (*(s.value for s in self.sums), *(s.value for s in self.pieces))
        return (*reduced, *(s.value for s in self.stores), *added)


@dataclass(frozen=True)
class RowProgram:
    """What is done with each row: the phases, then one store of each of `row_stores` a row, or,
    where a row is worked on in parts, the states that the parts leave.

    `slots` are the types of the row cache's slots, each as wide as a row.
    """

    domain: Domain
    phases: tuple[Phase, ...]
    row_stores: tuple[Store, ...]
    states: tuple[StateStore, ...] = ()
    slots: tuple[DType, ...] = ()

    @property
    def kept_bytes(self) -> int:
        """The most bytes that are kept for a column from one phase to the next."""
        last_read = {k.value: n for n, phase in enumerate(self.phases) for k in phase.reads}
        kept = [0] * len(self.phases)
        for number, phase in enumerate(self.phases):
            own = (phase.powers.kept,) if phase.powers and phase.powers.kept else ()
            for value in (*phase.writes, *own):
                for end in range(number, last_read.get(value.value, number)):
                    kept[end] += value.value.dtype.compute.itemsize
        return max(kept, default=0)

    @property
    def sums(self) -> tuple[ColumnSum, ...]:
        """The sums over rows, phase by phase."""
        return tuple(s for phase in self.phases for s in phase.sums)

    @property
    def pieces(self) -> tuple[PieceSum, ...]:
        """The sums over pieces of rows, phase by phase."""
        return tuple(s for phase in self.phases for s in phase.pieces)

    @property
    def register_bytes(self) -> int:
        """The bytes that a thread holds for each column: what is kept, and its sums."""
        return self.kept_bytes + sum(s.buffer.dtype.itemsize for s in self.sums)

    @property
    def written(self) -> tuple[Buffer, ...]:
        """The buffers it fills."""
        stores = [s.buffer for phase in self.phases for s in phase.stores]
        stores += [s.buffer for s in self.row_stores]
        left = (*(s.buffer for s in self.states), *(s.buffer for s in self.sums))
        return (*stores, *left, *(s.buffer for s in self.pieces))

    @property
    def values(self) -> tuple[Expression, ...]:
        """What it computes: everything it reads hangs below these."""
        stores = [s.value for phase in self.phases for s in phase.stores]
        stores += [s.value for s in self.row_stores]
        stores += [s.value for s in self.sums]
        stores += [s.value for s in self.pieces]
        return (*stores, *(r for phase in self.phases for r in phase.results))

    @property
    def tolerant(self) -> frozenset[Expression]:
        """Its float32 values for which quicker functions will do."""
        stores = [s for phase in self.phases for s in phase.stores]
        stored = [(s.value, s.buffer.dtype) for s in (*stores, *self.row_stores)]
        states = [(s.reduction, s.accumulator) for s in self.states]
        sums = [(s.value, DType.FLOAT32) for s in self.sums]
        sums += [(s.value, DType.FLOAT32) for s in self.pieces]
        return tolerant((*stored, *states, *sums))
