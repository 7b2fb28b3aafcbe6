"""Writes composite operations out in the primitive ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fusegen.ir.graph import Graph, Node, topological
from fusegen.ops.record import Composite
from fusegen.passes.rewrite import with_roots


def decompose(graph: Graph, keeps: Callable[[Composite], bool] = lambda composite: False) -> Graph:
    """The graph without composites, but those that `keeps` tells; the same object if it has none.

    What a composite becomes takes over its name, and all its parts its place in the source.
    """
    done: dict[Node, Node] = {}
    for node in topological(graph.roots):
        done[node] = _primitive(node, done, keeps)
    return with_roots(graph, tuple(done[root] for root in graph.roots))


def _primitive(node: Node, done: dict[Node, Node], keeps: Callable[[Composite], bool]) -> Node:
    """The node over primitive operands, `done`, and primitive itself unless it is kept."""
    operands = tuple(done[operand] for operand in node.operands)
    if operands != node.operands:
        node = replace(node, operands=operands)
    if not isinstance(node.operation, Composite) or keeps(node.operation):
        return node
    body = node.operation.decompose(operands, node.attributes)
    inner = {outside: outside for outside in topological(operands)}
    for part in topological((body,)):
        if part not in inner:
            named = replace(
                part,
                name=node.name if part is body else None,
                span=node.span,
                origin=node.written_as,
            )
            inner[part] = _primitive(named, inner, keeps)
    return inner[body]
