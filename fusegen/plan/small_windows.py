"""Poolings of a few elements each, written as elementwise operations.

A pooling whose windows lie side by side reads each element once: what makes the elements, and what
follows, can share its kernel, which PyTorch's own cannot.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from math import prod

from fusegen.ir.graph import Graph, Node, topological
from fusegen.ir.integers import Integer
from fusegen.ops import build
from fusegen.ops.primitive.convolutions import CONVOLUTION_CHANNELS_LAST
from fusegen.ops.primitive.poolings import AVG_POOLS, MAX_POOLS
from fusegen.ops.primitive.views import SLICE
from fusegen.ops.record import Pointwise, Reduction, Reshape, View
from fusegen.passes.rewrite import with_roots

POOLS = (*MAX_POOLS.values(), *AVG_POOLS.values())
PASSING = (Pointwise, View, Reshape)
# Elements of a window, each of which is a load of its own for each result.
MOST_TAPS = 8
# The same where they have their channels last: each is a tile in shared memory.
MOST_TILES = 4


def open_small_windows(graph: Graph) -> Graph:
    """The graph in which small poolings, whose windows neither overlap nor reach beyond the input,
    are the greatest, or the mean, of slices."""
    reduced = _reduced(graph)
    done: dict[Node, Node] = {}
    taps: dict[Node, int] = {}  # elements in memory that each is made of without a kernel between
    for node in topological(graph.roots):
        operands = tuple(done[operand] for operand in node.operands)
        moved = node if operands == node.operands else replace(node, operands=operands)
        most = max((taps[operand] for operand in node.operands), default=1)
        taps[node] = most if isinstance(node.operation, PASSING) else 1
        if node.operation in POOLS and _is_small(node, most, node in reduced):
            moved = _of_slices(moved)
            taps[node] = most * prod(node.attributes.integers("kernel_size"))
        done[node] = moved
    return with_roots(graph, tuple(done[root] for root in graph.roots))


def opened_windows(graph: Graph) -> tuple[tuple[str, Integer], ...]:
    """The poolings that were opened, with the numbers of their windows that are known at run time
    only: there must be one at least, as the library's kernels ask for themselves."""
    names = {record.name for record in POOLS}
    found: dict[tuple[str, Integer], None] = {}
    for node in topological(graph.roots):
        if node.operation is SLICE and node.origin in names:
            size = node.shape[node.attributes.integer("dim")]
            if size.constant is None:
                found[node.origin, size] = None
    return tuple(found)


def _reduced(graph: Graph) -> set[Node]:
    """The values of which a reduction takes the elements, or what elementwise operations and views
    make of them."""
    found: set[Node] = set()
    for node in reversed(topological(graph.roots)):
        is_passed_on = node in found and isinstance(node.operation, PASSING)
        if isinstance(node.operation, Reduction) or is_passed_on:
            found.update(node.operands)
    return found


def _is_small(node: Node, taps: int, is_reduced: bool) -> bool:
    """Whether it is opened, whose operand is made of so many elements in memory."""
    attributes = node.attributes
    kernel = attributes.integers("kernel_size")
    if attributes.integers("stride") != kernel or attributes.flag("ceil_mode"):
        return False
    if any(attributes.integers("padding")) or attributes.get("divisor_override") is not None:
        return False
    if node.operation in MAX_POOLS.values() and set(attributes.integers("dilation")) != {1}:
        return False
    made_of = {below.operation for below in topological(node.operands)}
    count = prod(kernel)
    if CONVOLUTION_CHANNELS_LAST not in made_of:
        return count > 1 and count * taps <= MOST_TAPS
    # A reduction would read along the channels what it reduces along the pixels.
    return count > 1 and count * taps <= MOST_TILES and not is_reduced


def _of_slices(node: Node) -> Node:
    (x,) = node.operands
    kernel = node.attributes.integers("kernel_size")

    def part(made: Node) -> Node:  # known by what the user wrote
        return replace(made, origin=node.written_as)

    first = x.type.rank - len(kernel)
    taps = []
    for place in itertools.product(*map(range, kernel)):
        tap = x
        for dim, (start, step) in enumerate(zip(place, kernel, strict=True), start=first):
            end = (node.shape[dim] - 1) * step + start + 1
            tap = part(build.take(tap, dim, start, end, step))
        taps.append(tap)

    def joined(combine: Callable[[Node, Node], Node], parts: list[Node]) -> Node:
        return reduce(lambda x, y: part(combine(x, y)), parts)

    if node.operation in MAX_POOLS.values():
        made = joined(build.maximum, taps)
    else:
        total = joined(build.add, [part(build.to_compute(tap)) for tap in taps])
        made = build.as_result(part(build.div(total, float(prod(kernel)))), node.dtype)
    return replace(part(made), name=node.name, span=node.span)
