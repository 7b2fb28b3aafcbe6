"""Rewriting a graph node by node, operands first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fusegen.ir.graph import Graph, Node, topological

Rule = Callable[[Node], Node]


def rewrite(graph: Graph, rule: Rule) -> Graph:
    """The graph with `rule` applied to every node once its operands are rewritten; the same object
    if nothing changed."""
    done: dict[Node, Node] = {}
    for node in topological(graph.roots):
        operands = tuple(done[operand] for operand in node.operands)
        moved = node if operands == node.operands else replace(node, operands=operands)
        done[node] = rule(moved)
    return with_roots(graph, tuple(done[root] for root in graph.roots))


def with_roots(graph: Graph, roots: tuple[Node, ...]) -> Graph:
    """The graph with its roots exchanged, in their order; the same object if every root stays."""
    if roots == graph.roots:
        return graph
    rest = iter(roots)
    outputs = tuple(replace(output, node=next(rest)) for output in graph.outputs)
    updates = tuple(
        replace(update, mean=next(rest), variance=next(rest)) for update in graph.updates
    )
    saved = tuple(replace(value, node=next(rest)) for value in graph.saved)
    return replace(graph, outputs=outputs, updates=updates, saved=saved)
