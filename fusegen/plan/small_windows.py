"""Poolings of a few elements each, written as elementwise operations.

A pooling whose windows lie side by side reads each element once: what makes the elements, and what
follows, can share its kernel, which PyTorch's own cannot.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import reduce
from math import prod

from fusegen.ir.graph import Graph, Node, topological
from fusegen.ops import build
from fusegen.ops.primitive.convolutions import CONVOLUTION_CHANNELS_LAST
from fusegen.ops.primitive.poolings import AVG_POOLS, MAX_POOLS
from fusegen.ops.record import Pointwise, Reduction, Reshape, View
from fusegen.passes.rewrite import with_roots

POOLS = (*MAX_POOLS.values(), *AVG_POOLS.values())
# Elements of a window, each of which is a load of its own for each result.
MOST_TAPS = 8
# The same where they have their channels last: each is a tile in shared memory.
MOST_TILES = 4


def open_small_windows(graph: Graph) -> Graph:
    """The graph in which small poolings, whose windows neither overlap nor reach beyond the input,
    are the greatest, or the mean, of slices."""
    reduced = _reduced(graph)
    done: dict[Node, Node] = {}
    for node in topological(graph.roots):
        operands = tuple(done[operand] for operand in node.operands)
        moved = node if operands == node.operands else replace(node, operands=operands)
        is_small = node.operation in POOLS and _is_small(node, node in reduced)
        done[node] = _of_slices(moved) if is_small else moved
    return with_roots(graph, tuple(done[root] for root in graph.roots))


def _reduced(graph: Graph) -> set[Node]:
    """The values of which a reduction takes the elements, or what elementwise operations and views
    make of them."""
    found: set[Node] = set()
    for node in reversed(topological(graph.roots)):
        is_passed_on = node in found and isinstance(node.operation, (Pointwise, View, Reshape))
        if isinstance(node.operation, Reduction) or is_passed_on:
            found.update(node.operands)
    return found


def _is_small(node: Node, is_reduced: bool) -> bool:
    attributes = node.attributes
    kernel = attributes.integers("kernel_size")
    if attributes.integers("stride") != kernel or attributes.flag("ceil_mode"):
        return False
    if any(attributes.integers("padding")) or attributes.get("divisor_override") is not None:
        return False
    if node.operation in MAX_POOLS.values() and set(attributes.integers("dilation")) != {1}:
        return False
    made_of = {below.operation for below in topological(node.operands)}
    if CONVOLUTION_CHANNELS_LAST not in made_of:
        return 1 < prod(kernel) <= MOST_TAPS
    # A reduction would read along the channels what it reduces along the pixels.
    return 1 < prod(kernel) <= MOST_TILES and not is_reduced


def _of_slices(node: Node) -> Node:
    (x,) = node.operands
    kernel = node.attributes.integers("kernel_size")
    first = x.type.rank - len(kernel)
    taps = []
    for place in itertools.product(*map(range, kernel)):
        tap = x
        for dim, (start, step) in enumerate(zip(place, kernel, strict=True), start=first):
            end = (node.shape[dim] - 1) * step + start + 1
            tap = build.take(tap, dim, start, end, step)
        taps.append(tap)
    if node.operation in MAX_POOLS.values():
        made = reduce(build.maximum, taps)
    else:
        total = reduce(build.add, map(build.to_compute, taps))
        made = build.as_result(build.div(total, float(prod(kernel))), node.dtype)
    return replace(made, name=node.name, span=node.span, origin=node.written_as)
