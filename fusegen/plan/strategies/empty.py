"""Results without elements."""

from __future__ import annotations

from fusegen.ir.integers import ZERO, Integer
from fusegen.ops.record import LibraryCall
from fusegen.plan.cost import Cost
from fusegen.plan.expressions import Literal
from fusegen.plan.group import Context, Group, NotApplicable
from fusegen.plan.kernels.elementwise import ElementwisePlan
from fusegen.plan.kernels.stores import Store


def plan(group: Group, context: Context) -> tuple[ElementwisePlan, ...]:
    """A kernel that is never launched: it stands for memory that has a shape and no elements."""
    if any(result.type.count != ZERO for result in group.results):
        raise NotApplicable("there is something to compute")
    if group.having(LibraryCall):
        raise NotApplicable("the group has a library call")
    index = Integer.symbol("index", ZERO)
    stores = tuple(
        Store(context.buffers[r], index, Literal(r.dtype, "nothing", 0)) for r in group.results
    )
    why = "the results have no elements"
    return (ElementwisePlan("", group.nodes, why, Cost(0, 0, 0), index, ZERO, stores, vector=1),)
