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
    outputs = tuple(
        replace(output, node=node) for output, node in zip(graph.outputs, roots, strict=False)
    )
    rest = roots[len(graph.outputs) :]
    updates = tuple(
        replace(update, mean=mean, variance=variance)
        for update, mean, variance in zip(graph.updates, rest[::2], rest[1::2], strict=True)
    )
    return replace(graph, outputs=outputs, updates=updates)
