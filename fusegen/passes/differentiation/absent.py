"""The backward of a graph where nothing is made of some of its outputs.

Their gradients are no zeros but nothing at all: what an output's own branch would be multiplied by
may be infinite, and then 0 times it is NaN where PyTorch has a number.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from fusegen.ir.graph import Graph, Node, topological
from fusegen.ops import build
from fusegen.ops.pointwise.arithmetic import ADD, SUB
from fusegen.passes.differentiation.differentiate import Differentiated, Origin, named
from fusegen.passes.legality import check


def without(found: Differentiated, absent: Collection[int]) -> Graph:
    """The backward for the gradients of the outputs that are not `absent`, by their positions.

    It takes the same tensors, and reads nothing of the absent gradients. What only they reach is 0.
    """
    graph = found.backward
    flows: set[Node] = set()  # what depends on an incoming gradient
    stands: dict[Node, Node | None] = {}  # None for what depends on absent ones alone
    for node, source in zip(graph.inputs, found.sources, strict=True):
        is_gradient = source.origin is Origin.OUTPUT_GRADIENT
        if is_gradient:
            flows.add(node)
        stands[node] = None if is_gradient and source.index in absent else node
    for node in topological(tuple(output.node for output in graph.outputs)):
        if node in stands:
            continue
        carried = [operand for operand in node.operands if operand in flows]
        if carried:
            flows.add(node)
        gone = bool(carried) and all(stands[operand] is None for operand in carried)
        stands[node] = None if gone else _rest(node, [stands[operand] for operand in node.operands])
    results = tuple(replace(output, node=_present(output.node, stands)) for output in graph.outputs)
    after = replace(graph, outputs=named(results))
    check(graph, after, "absent gradients")
    return after


def _present(node: Node, stands: dict[Node, Node | None]) -> Node:
    return stands[node] or build.zeros(node.shape, node.dtype)


def _rest(node: Node, operands: list[Node | None]) -> Node:
    """What is left of an operation on gradients, which is linear in them, without those that are
    None."""
    if node.operation in (ADD, SUB) and None in operands:
        left = next(operand for operand in operands if operand is not None)
        if left.type == node.type and (node.operation is ADD or left is operands[0]):
            return left
    filled = tuple(
        build.zeros(before.shape, before.dtype) if operand is None else operand
        for before, operand in zip(node.operands, operands, strict=True)
    )
    return node if filled == node.operands else replace(node, operands=filled)
