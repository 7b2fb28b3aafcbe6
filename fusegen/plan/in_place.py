"""Which kernels write where they read, so that a call needs less memory: a kernel of rows may leave
its result in the memory of a workspace that nothing needs behind it, where each element takes the
place of the one that it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fusegen.ir.integers import ZERO
from fusegen.plan.buffers import Buffer, BufferRole
from fusegen.plan.cost import SizeHints
from fusegen.plan.expressions import Load, PartialStates, walk
from fusegen.plan.kernels.base import InPlace
from fusegen.plan.kernels.library import LibraryPlan
from fusegen.plan.kernels.module import Step
from fusegen.plan.kernels.rows import RowForm, RowMapping, RowPlan
from fusegen.plan.kernels.stores import Store
from fusegen.plan.lifetimes import large_buffers, last_uses


def with_results_in_place(steps: tuple[Step, ...], hints: SizeHints) -> tuple[Step, ...]:
    """The steps, each with what it writes where it reads; small workspaces are left alone."""
    large = large_buffers(steps, hints)
    made: set[Buffer] = set()
    found: list[Step] = []
    for step, ended in zip(steps, last_uses(steps), strict=True):
        free = [b for b in ended if b in made and b in large]
        found.append(_in_place(step, free))
        if not isinstance(step, LibraryPlan):  # whose result may be a view of what it was given
            made |= {b for b in step.written if b.role is BufferRole.WORKSPACE}
    return tuple(found)


def _in_place(step: Step, free: Sequence[Buffer]) -> Step:
    if not isinstance(step, RowPlan):
        return step
    store = _last_store(step)
    for read in free:
        if store is not None and _takes_its_place(store, read, step):
            why = f"{step.why}; its result takes the memory of {read.name}"
            return replace(step, why=why, in_place=InPlace(read, store.buffer))
    return step


def _last_store(plan: RowPlan) -> Store | None:
    """The store of each element of a row that is the last of all that is done with it in every
    form, if there is one."""
    if any(_may_read_twice(form, plan) for form in plan.forms):
        return None
    lasts = {form.program.phases[-1] for form in plan.forms}
    if any(last.sums or last.pieces or len(last.stores) != 1 for last in lasts):
        return None
    stores = {last.stores[0] for last in lasts}
    return stores.pop() if len(stores) == 1 else None


def _may_read_twice(form: RowForm, plan: RowPlan) -> bool:
    """Whether threads beyond the last row may read it beside those that work on it."""
    together = form.rows_a_block * (plan.vector if form.mapping is RowMapping.OUTER else 1)
    are_whole = form.program.domain.rows % together == ZERO
    return not are_whole and (form.is_exact or form.ahead is not None)


def _takes_its_place(store: Store, read: Buffer, plan: RowPlan) -> bool:
    """Whether each element of a result is stored where the one stands that is read for it."""
    written = store.buffer
    if written.role is not BufferRole.WORKSPACE or written.dtype is not read.dtype:
        return False
    if written.type.count != read.type.count:
        return False
    loads = (e for e in walk(plan.values) if isinstance(e, (Load, PartialStates)))
    return all(e.offset == store.position for e in loads if e.buffer is read)
