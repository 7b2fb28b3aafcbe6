"""Sums along different directions share the dims they have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node, topological
from fusegen.ir.integers import Integer, product
from fusegen.ops.construct import call
from fusegen.ops.primitive.reductions import SUM
from fusegen.passes.rewrite import rewrite

# Sums in these are rounded no further where they are stored in between.
ACCUMULATED = (DType.FLOAT32, DType.FLOAT64)
# Fewer elements than that are no row worth its own sum.
FEWEST = 32


def sum_inner_dims_first(graph: Graph) -> Graph:
    """Where sums over as many elements have their last dims in common but not all, sum each over
    those first, then the few sums over the rest.

    Of an image's gradient the group norm sums over a group's channels and pixels, its weight over
    the images and pixels: sums over the pixels of each channel serve both, so that one kernel
    reads the image for them. What the split leaves between is an element for each channel.
    """
    common = _common_dims(graph)

    def rule(node: Node) -> Node:
        shared = common.get(node.operands[0].type.count, 0) if _is_wide_sum(node) else 0
        if not 0 < shared < len(node.attributes.integers("dims")):
            return node
        (operand,) = node.operands
        inner = tuple(range(len(operand.shape) - shared, len(operand.shape)))
        return replace(node, operands=(call(SUM, (operand,), dims=inner, keepdim=True),))

    return rewrite(graph, rule)


def _is_wide_sum(node: Node) -> bool:
    return node.operation is SUM and node.dtype in ACCUMULATED


def _common_dims(graph: Graph) -> Mapping[Integer, int]:
    """For each count of elements how many last dims all sums over so many have in common: 0 where
    that saves nothing."""
    suffixes: dict[Integer, set[tuple[Integer, ...]]] = {}
    directions: dict[Integer, set[Integer]] = {}
    for node in topological(graph.roots):
        if _is_wide_sum(node):
            count = node.operands[0].type.count
            suffixes.setdefault(count, set()).add(_last_dims(node))
            directions.setdefault(count, set()).add(node.type.count)
    return {
        count: _common_length(found)
        for count, found in suffixes.items()
        if len(directions[count]) > 1
    }


def _last_dims(node: Node) -> tuple[Integer, ...]:
    """The sizes of the last dims as far as a sum runs over them, the last one first."""
    shape, dims = node.operands[0].shape, node.attributes.integers("dims")
    found = []
    for dim in reversed(range(len(shape))):
        if dim not in dims:
            break
        found.append(shape[dim])
    return tuple(found)


def _common_length(suffixes: set[tuple[Integer, ...]]) -> int:
    shared: list[Integer] = []
    for sizes in zip(*suffixes, strict=False):
        if len(set(sizes)) > 1:
            break
        shared.append(sizes[0])
    elements = product(shared).constant
    return 0 if elements is not None and elements < FEWEST else len(shared)
