"""One node for equal values."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from fusegen.ir.graph import AttributeValue, Graph, Node, Placeholder
from fusegen.ops import build
from fusegen.ops.pointwise.casting import WIDEN, widens
from fusegen.ops.record import Reduction
from fusegen.passes.rewrite import rewrite


def share_common_values(graph: Graph) -> Graph:
    """Where the same operation is applied to the same operands twice, the first one serves both. So
    does a reduction that keeps its dims for one that does not, and the other way round."""
    known: dict[Hashable, Node] = {}

    def rule(node: Node) -> Node:
        if isinstance(node.operation, Placeholder):
            return node
        if isinstance(node.operation, Reduction):
            first = known.setdefault(_key_of_reduction(node), node)
            return first if first.type == node.type else build.reshape(first, node.shape)
        return known.setdefault(_key(node, node.operands), node)

    return rewrite(graph, rule)


def first_equal(order: Iterable[Node]) -> dict[Node, Node]:
    """For each node of a topological order, the first one in it that has the same value."""
    known: dict[Hashable, Node] = {}
    first: dict[Node, Node] = {}
    for node in order:
        is_given = isinstance(node.operation, Placeholder)
        key = node if is_given else _key(node, tuple(first[x] for x in node.operands))
        first[node] = known.setdefault(key, node)
    return first


def _key(node: Node, operands: tuple[Node, ...]) -> Hashable:
    """Equal for nodes that do the same with these operands."""
    if widens(node) and node.dtype is operands[0].dtype.compute:
        return (WIDEN, operands)  # however it was written
    attributes = tuple((name, _exact(value)) for name, value in node.attributes.items_)
    return (node.operation, operands, attributes, node.type)


def _key_of_reduction(node: Node) -> Hashable:
    """Equal for reductions that have the same elements."""
    kept = tuple((k, _exact(v)) for k, v in node.attributes.items_ if k != "keepdim")
    return (node.operation, node.operands, kept, node.dtype)


def _exact(value: AttributeValue) -> Hashable:
    """A key that tells 0.0 from -0.0 and 1 from True and 1.0."""
    if isinstance(value, float):
        return (float, value.hex())
    if isinstance(value, tuple):
        return tuple(_exact(item) for item in value)
    return (type(value), value)
