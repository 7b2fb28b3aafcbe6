"""Why neighbouring steps of a plan do not share a kernel, for the plan's reader."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.ir.graph import Node, topological
from fusegen.ops.primitive.convolutions import CONVOLUTION
from fusegen.ops.record import LibraryCall, Pointwise, Product, Reduction
from fusegen.plan.cost import H100, Device, SizeHints
from fusegen.plan.group import Context, Group
from fusegen.plan.kernels.library import LibraryPlan
from fusegen.plan.kernels.module import ModulePlan, Step
from fusegen.plan.module import buffers_of
from fusegen.plan.partition import Dependencies
from fusegen.plan.strategies import Verdict, judge

# Why two steps compute some operations both.
HANDED_OVER = (
    "the first leaves what it reduces each row to, from which the product makes its operand as it "
    "loads it, so that is never stored"
)
MADE_BY_BOTH = "each makes the operands of its products itself, of products that neither stores"


@dataclass(frozen=True)
class Boundary:
    """A step that reads what an earlier one writes, and why one kernel does not do both."""

    first: Step
    second: Step
    why: str


def boundaries(
    plan: ModulePlan, hints: SizeHints | None = None, device: Device = H100
) -> tuple[Boundary, ...]:
    """The boundaries of a plan, under the hints it was made with.

    Steps of one group, such as a product's partial results and their merging, have none.
    """
    graph = plan.graph
    dependencies = Dependencies.of(graph)
    hints = SizeHints.of(graph) if hints is None else hints
    context = Context(buffers_of(graph), device, hints)
    rank = {node: position for position, node in enumerate(topological(graph.roots))}
    found = []
    for position, second in enumerate(plan.steps):
        reads = {p for node in covered(second) for p in dependencies.producers[node]}
        for first in plan.steps[:position]:
            ahead, own = set(covered(first)), set(covered(second))
            if (reads - own) & ahead and not (ahead <= own or own <= ahead):
                nodes = sorted(ahead | own, key=rank.__getitem__)
                group = dependencies.group(tuple(nodes))
                if any(isinstance(node.operation, Product) for node in ahead & own):
                    why = MADE_BY_BOTH
                elif ahead & own:
                    why = HANDED_OVER
                elif _feeds_product(first, second, dependencies):
                    why = _why_operands_stand_in_memory(first, judge(group, context))
                else:
                    why = _reason(group, judge(group, context))
                found.append(Boundary(first, second, why))
    return tuple(found)


def covered(step: Step) -> tuple[Node, ...]:
    """The graph's nodes that a step computes."""
    return (step.node,) if isinstance(step, LibraryPlan) else step.covers


def _feeds_product(first: Step, second: Step, dependencies: Dependencies) -> bool:
    """Whether the second step's matrix product has an operand that the first computes."""
    products = [node for node in covered(second) if isinstance(node.operation, Product)]
    operands = {p for node in products for p in dependencies.producers[node]}
    return bool(operands & set(covered(first)))


def _why_operands_stand_in_memory(first: Step, verdict: Verdict) -> str:
    if all(isinstance(node.operation, Pointwise) for node in covered(first)) and not verdict.steps:
        refusals = (why for strategy, why in verdict.refusals if strategy.startswith("product"))
        told = [why for why in refusals if "operand" in why]
        if told:
            return told[0]
    return "a matrix product reads its operands from memory, where every tile finds them"


def _reason(group: Group, verdict: Verdict) -> str:
    if verdict.steps:
        return f"'{verdict.strategy}' would do both, but in more time than two kernels take"
    if len(group.having(Product)) > 1:
        return "no kernel of several matrix products does that"
    if any(n.operation is CONVOLUTION for n in group.having(LibraryCall)):
        family = "convolution"
    elif group.having(LibraryCall):
        family = "library"
    elif group.having(Product):
        family = "product"
    else:
        family = "rows" if group.having(Reduction) else "elementwise"
    reasons = [why for strategy, why in verdict.refusals if strategy.startswith(family)]
    return "; ".join(dict.fromkeys(reasons))
