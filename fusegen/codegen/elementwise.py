"""The text of an elementwise kernel."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.codegen.kernel_text import KernelText
from fusegen.codegen.loops import VectorLoop
from fusegen.codegen.names import mentions
from fusegen.codegen.scope import Scope, stored_integers
from fusegen.codegen.statements import Statements
from fusegen.plan.kernels.elementwise import THREADS, ElementwisePlan


@dataclass(frozen=True)
class ElementwiseText:
    """What the skeleton `elementwise.cu.j2` fills in."""

    kernel: KernelText
    threads: int
    vector: int
    count: str
    before: tuple[str, ...]
    body: tuple[str, ...]
    after: tuple[str, ...]
    needs_index: bool
    multiplies: bool


def elementwise_text(plan: ElementwisePlan) -> ElementwiseText:
    """Fill the skeleton from the plan."""
    scope = Scope.of(
        plan.name, plan.values, plan.written, stored_integers(plan.stores), (plan.count,)
    )
    loop = VectorLoop(scope, plan.index, "first", plan.vector)
    statements = Statements(
        scope.names,
        loop.scope.symbols,
        loop.load,
        loop.guarded_load,
        multiplied=plan.multiplied,
        choice=loop.choice,
        condition=loop.condition,
    )
    for store in plan.stores:
        statements.lines.append(loop.store(store, statements.value(store.value)))
    body = statements.drain()
    return ElementwiseText(
        KernelText.of(plan, scope),
        THREADS,
        plan.vector,
        scope.text(plan.count),
        tuple(loop.before),
        body,
        tuple(loop.after),
        mentions(body, "index"),
        bool(plan.multiplied),
    )
