"""Shows the stages between source and kernels, as FUSEGEN_DUMP asks."""

from __future__ import annotations

import pprint
from collections.abc import Iterator

from fusegen import settings
from fusegen.frontend import Program
from fusegen.ir.graph import Graph, Node, topological
from fusegen.ops.twin import literal
from fusegen.plan.kernels.library import LibraryPlan
from fusegen.plan.kernels.module import ModulePlan
from fusegen.settings import Stage


def dump_program(program: Program) -> None:
    """Show the syntax tree."""
    dump = settings.dump()
    if dump.wants(Stage.AST):
        name = program.source.filename.rpartition("/")[2]
        dump.write(Stage.AST, name, pprint.pformat(program.definitions, width=100))


def dump_graph(name: str, graph: Graph) -> None:
    """Show the graph as the user wrote it."""
    _dump_graph(Stage.GRAPH, name, graph)


def dump_pass(name: str, graph: Graph) -> None:
    """Show the graph after a pass that changed it."""
    _dump_graph(Stage.PASSES, name, graph)


def dump_plan(name: str, plan: ModulePlan) -> None:
    """Show which kernels there are, what they compute, and why."""
    dump = settings.dump()
    if dump.wants(Stage.PLAN):
        dump.write(Stage.PLAN, name, "\n".join(_plan_lines(plan)))


def dump_cuda(name: str, text: str) -> None:
    """Show the kernels' text."""
    settings.dump().write(Stage.CUDA, name, text)


def _dump_graph(stage: Stage, name: str, graph: Graph) -> None:
    dump = settings.dump()
    if dump.wants(stage):
        dump.write(stage, name.replace(" ", "-"), graph_text(graph))


def graph_text(graph: Graph) -> str:
    """A graph as lines `%3 gemm: float32[batch, 64] = linear(%0, %1)`."""
    numbers: dict[Node, str] = {}
    lines = []
    for node in topological(graph.roots):
        numbers[node] = f"%{len(numbers)}"
        arguments = [numbers[operand] for operand in node.operands]
        arguments += [f"{name}={literal(value)}" for name, value in node.attributes.items()]
        name = f" {node.name}" if node.name else ""
        call = f"{node.operation.name}({', '.join(arguments)})"
        lines.append(f"{numbers[node]}{name}: {node.type} = {call}")
    return "\n".join([*lines, f"return {', '.join(numbers[root] for root in graph.roots)}"])


def _plan_lines(plan: ModulePlan) -> Iterator[str]:
    for step in plan.steps:
        if isinstance(step, LibraryPlan):
            yield f"library call {step.node.operation.name}: {step.why}"
        else:
            yield f"{type(step).__name__} {step.name}: {step.why}"
            yield f"  computes {', '.join(n.name or n.operation.name for n in step.covers)}"
            yield f"  writes {', '.join(f'{b.name}: {b.type}' for b in step.written)}"
