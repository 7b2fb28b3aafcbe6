"""Elementwise kernels: every result has the same number of elements, each computed on its own."""

from __future__ import annotations

from fusegen.ir.integers import Integer
from fusegen.ops.record import Concatenation, Pointwise
from fusegen.plan.accounting import elementwise_work
from fusegen.plan.coordinates import unflatten
from fusegen.plan.cost import Cost
from fusegen.plan.expressions import walk
from fusegen.plan.group import Context, Group, NotApplicable
from fusegen.plan.kernels.elementwise import ElementwisePlan
from fusegen.plan.kernels.stores import Store
from fusegen.plan.phases import loads_of
from fusegen.plan.special_functions import multiplied
from fusegen.plan.strategies.turned_tiles import turned_tiles

# The widest access the device makes, in bytes, and the most elements worth handling together.
ACCESS_BYTES = 16
MOST_ELEMENTS = 8


def plan(group: Group, context: Context) -> tuple[ElementwisePlan, ...]:
    """One thread for a few neighbouring elements of all results."""
    if any(not isinstance(n.operation, (Pointwise, Concatenation)) for n in group.nodes):
        raise NotApplicable("something in the group is not elementwise")
    count = group.results[0].type.count
    if any(result.type.count != count for result in group.results):
        raise NotApplicable("the results have different numbers of elements")
    index = Integer.symbol("index", count)
    evaluator = context.evaluator(group)
    stores = tuple(
        Store(context.buffers[r], index, evaluator.at(r, unflatten(index, r.shape)))
        for r in group.results
    )
    hints = context.hints
    elements = hints.value(count)
    work = elementwise_work(stores, elements, hints)
    cost = Cost(work.reads, work.writes, work.flops)
    why = "elementwise: each element is read once and written once"
    values = tuple(store.value for store in stores)
    out = multiplied(values, (work.reads + work.writes) / max(elements, 1), context.device)
    if out:
        names = ", ".join(value.name for value in walk(values) if value in out)
        why += f"; special functions take longest, so reciprocals are multiplied out in {names}"
    width = vector_width(stores)
    tiles = turned_tiles(group.results, evaluator, context, width)
    if tiles is not None:
        across = ", ".join(dict.fromkeys(load.buffer.name for load in tiles.turned))
        why += f"; {across} lies across, and is turned in shared memory by tiles"
    return (ElementwisePlan("", group.nodes, why, cost, index, count, stores, width, out, tiles),)


def vector_width(stores: tuple[Store, ...]) -> int:
    """Elements for one wide access of the narrowest type that is read or written."""
    loads = loads_of(tuple(store.value for store in stores))
    sizes = [s.buffer.dtype.itemsize for s in stores] + [x.buffer.dtype.itemsize for x in loads]
    return min(ACCESS_BYTES // min(sizes, default=ACCESS_BYTES), MOST_ELEMENTS)
