"""Sums along different directions share the dims they have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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

Decision = Callable[[int, int], bool]
"""Of rows of so many elements, in pieces of so many."""


def sum_inner_dims_first(graph: Graph, stays_whole: Decision) -> Graph:
    """Where sums over as many elements have their last dims in common but not all, sum each over
    those first, then the few sums over the rest.

    Of an image's gradient the group norm sums over a group's channels and pixels, its weight over
    the images and pixels: sums over the pixels of each channel serve both, so that one kernel
    reads the image for them. What the split leaves between is an element for each channel. The
    caller decides which groups that are neighbours in memory stay whole.
    """
    common = _common_dims(graph)

    def rule(node: Node) -> Node:
        shared = common.get(node.operands[0].type.count, 0) if _is_wide_sum(node) else 0
        if _stays_whole(node, shared, stays_whole):
            return node
        if not 0 < shared < len(node.attributes.integers("dims")):
            return node
        (operand,) = node.operands
        inner = tuple(range(len(operand.shape) - shared, len(operand.shape)))
        return replace(node, operands=(call(SUM, (operand,), dims=inner, keepdim=True),))

    return rewrite(graph, rule)


def _is_wide_sum(node: Node) -> bool:
    return node.operation is SUM and node.dtype in ACCUMULATED


def _stays_whole(node: Node, shared: int, decide: Decision) -> bool:
    """Whether it sums over rows of neighbours that stay whole, in pieces of the last `shared`
    dims."""
    if not shared:
        return False
    dims, shape = node.attributes.integers("dims"), node.operands[0].shape
    is_last = dims == tuple(range(len(shape) - len(dims), len(shape)))
    columns = product([shape[dim] for dim in dims]).constant
    piece = product(shape[-shared:]).constant
    return is_last and columns is not None and piece is not None and decide(columns, piece)


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
