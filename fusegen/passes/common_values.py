"""One node for equal values."""

from __future__ import annotations

from collections.abc import Hashable

from fusegen.ir.graph import AttributeValue, Graph, Node, Placeholder
from fusegen.passes.rewrite import rewrite


def share_common_values(graph: Graph) -> Graph:
    """Where the same operation is applied to the same operands twice, the first one serves both."""
    known: dict[Hashable, Node] = {}

    def rule(node: Node) -> Node:
        if isinstance(node.operation, Placeholder):
            return node
        attributes = tuple((k, _exact(v)) for k, v in node.attributes.items_)
        return known.setdefault((node.operation, node.operands, attributes, node.type), node)

    return rewrite(graph, rule)


def _exact(value: AttributeValue) -> Hashable:
    """A key that tells 0.0 from -0.0 and 1 from True and 1.0."""
    if isinstance(value, float):
        return (float, value.hex())
    if isinstance(value, tuple):
        return tuple(_exact(item) for item in value)
    return (type(value), value)
