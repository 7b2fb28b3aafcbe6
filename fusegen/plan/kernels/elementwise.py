"""Elementwise kernels: each thread works on neighbouring elements."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.ir.integers import Integer
from fusegen.plan.buffers import Buffer
from fusegen.plan.expressions import Expression, Load
from fusegen.plan.kernels.base import KernelPlan
from fusegen.plan.kernels.stores import Store

# Of a block.
THREADS = 256


# Rows and columns of a tile that is turned in shared memory, and the distance of its rows there,
# which keeps a warp's accesses in either direction to different banks.
TURNED_TILE = 64
TURNED_PITCH = TURNED_TILE + 1
# Shorter lines leave most of a tile idle.
LEAST_LINE = TURNED_TILE // 4


@dataclass(frozen=True)
class TurnedTiles:
    """The same results, where some operands lie across: their neighbours in memory are no
    neighbours in the results, as of an image whose channels are last.

    The results are `rows` x `columns` elements for each of `images`, and `stores` those at the loop
    variables' `row` and `column` of an `image`. The loads in `turned` are neighbours along the rows
    and are brought by tiles, all others are neighbours along the columns or the same for them.
    """

    image: Integer
    row: Integer
    column: Integer
    images: Integer
    rows: Integer
    columns: Integer
    stores: tuple[Store, ...]
    turned: tuple[Load, ...]

    @property
    def values(self) -> tuple[Expression, ...]:
        """What it computes of each element."""
        return tuple(store.value for store in self.stores)


@dataclass(frozen=True)
class ElementwisePlan(KernelPlan):
    """One thread for `vector` neighbouring elements of the `count` positions `index` runs over.

    The reciprocals in the operations `multiplied` are multiplied out. With `tiles`, packed tensors
    whose lines are whole vectors are computed so.
    """

    index: Integer
    count: Integer
    stores: tuple[Store, ...]
    vector: int
    multiplied: frozenset[Expression] = frozenset()
    tiles: TurnedTiles | None = None

    @property
    def written(self) -> tuple[Buffer, ...]:
        """The buffers it fills."""
        return tuple(store.buffer for store in self.stores)

    @property
    def values(self) -> tuple[Expression, ...]:
        """What it computes of each element."""
        return tuple(store.value for store in self.stores)
