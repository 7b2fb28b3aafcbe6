"""Writes composite operations out in the primitive ones."""

from __future__ import annotations

from dataclasses import replace

from fusegen.ir.graph import Graph, Node, topological
from fusegen.ops.record import Composite
from fusegen.passes.rewrite import with_roots


def decompose(graph: Graph) -> Graph:
    """The graph without composites; the same object if it has none.

    What a composite becomes takes over its name, and all its parts its place in the source.
    """
    done: dict[Node, Node] = {}
    for node in topological(graph.roots):
        done[node] = _primitive(node, done)
    return with_roots(graph, tuple(done[root] for root in graph.roots))


def _primitive(node: Node, done: dict[Node, Node]) -> Node:
    """The node over primitive operands, `done`, and primitive itself."""
    operands = tuple(done[operand] for operand in node.operands)
    if operands != node.operands:
        node = replace(node, operands=operands)
    if not isinstance(node.operation, Composite):
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
            inner[part] = _primitive(named, inner)
    return inner[body]
