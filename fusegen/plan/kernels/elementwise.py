"""Elementwise kernels: each thread works on neighbouring elements."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.ir.integers import Integer
from fusegen.plan.buffers import Buffer
from fusegen.plan.expressions import Expression
from fusegen.plan.kernels.base import KernelPlan
from fusegen.plan.kernels.stores import Store

# Of a block.
THREADS = 256


@dataclass(frozen=True)
class ElementwisePlan(KernelPlan):
    """One thread for `vector` neighbouring elements of the `count` positions `index` runs over.

    The reciprocals in the operations `multiplied` are multiplied out.
    """

    index: Integer
    count: Integer
    stores: tuple[Store, ...]
    vector: int
    multiplied: frozenset[Expression] = frozenset()

    @property
    def written(self) -> tuple[Buffer, ...]:
        """The buffers it fills."""
        return tuple(store.buffer for store in self.stores)

    @property
    def values(self) -> tuple[Expression, ...]:
        """What it computes of each element."""
        return tuple(store.value for store in self.stores)
