"""What is compared with an extreme of itself, or measured by it, is one value for both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from fusegen.ir.graph import Graph, Node, topological
from fusegen.ops import build
from fusegen.ops.pointwise.arithmetic import ADD, DIVIDE, SUB
from fusegen.ops.pointwise.casting import AS_STORED, widens
from fusegen.ops.pointwise.logic import EQ, GE, GT, LE, LT, NE
from fusegen.ops.record import (
    Concatenation,
    LibraryCall,
    Monoid,
    Pointwise,
    Product,
    Reduction,
    Reshape,
    View,
)
from fusegen.passes.rewrite import with_roots

COMPARISONS = (EQ, NE, LT, LE, GT, GE)
DISTANCES = (SUB, ADD, DIVIDE)
EXTREMES = (Monoid.MAXIMUM, Monoid.MINIMUM)
COMPUTED = (Pointwise, Reduction, Product, LibraryCall)


def hold_compared_values(graph: Graph) -> Graph:
    """Take a value as it is stored wherever a comparison has something selected from it on both
    sides, an extreme on one, as `p >= amax(p, dim)` has `p`: then whoever uses it sees the same
    number, and some element of each row is its greatest.

    A kernel would else find the greatest of the values in its registers, store it rounded, and
    another one compare that with values which it computes again and does not round.
    """
    order = topological(graph.roots)
    held = _on_both_sides(order, COMPARISONS)
    done: dict[Node, Node] = {}
    for node in order:
        operands = tuple(done[operand] for operand in node.operands)
        made = node if operands == node.operands else replace(node, operands=operands)
        done[node] = build.as_stored(made) if node in held else made
    return with_roots(graph, tuple(done[root] for root in graph.roots))


def values_of_distances(order: Iterable[Node]) -> set[Node]:
    """The values of 16 bits that meet an extreme of themselves in a sum, a difference or a
    quotient, as `p` does in `amax(p, dim) - p`: where a distance's sign counts, as for a square
    root, a kernel that reads a rounded extreme has to see the values rounded, too."""
    found = _on_both_sides(order, DISTANCES, lambda node, value: node.dtype is value.dtype)
    return {value for value in found if value.dtype.compute is not value.dtype}


def _on_both_sides(
    order: Iterable[Node],
    operations: Sequence[Pointwise],
    counts: Callable[[Node, Node], bool] = lambda extreme, value: True,
) -> set[Node]:
    """The values that both operands of some of the operations are selected from, one of them as an
    extreme that `counts` for the value, if kernels may see different numbers for them."""
    # Whether there is such an extreme on the way from each value.
    sources: dict[Node, dict[Node, bool]] = {}
    found: set[Node] = set()
    for node in order:
        below = [sources[operand] for operand in node.operands]
        if node.operation in operations:
            left, right = below
            found |= {value for value in left if value in right and (left[value] or right[value])}
        if not _selects(node):
            sources[node] = {node: False}
            continue
        sources[node] = {}
        for values in below:
            for value, is_extreme in values.items():
                here = _is_extreme(node) and counts(node, value)
                sources[node][value] = sources[node].get(value, False) or is_extreme or here
    return {value for value in found if _may_differ(value)}


def _selects(node: Node) -> bool:
    """Whether the elements are those of operands, or what no rounding makes of them."""
    operation = node.operation
    if isinstance(operation, Pointwise):
        return operation.exact or widens(node)
    return _is_extreme(node) or isinstance(operation, (View, Reshape, Concatenation))


def _is_extreme(node: Node) -> bool:
    return isinstance(node.operation, Reduction) and node.operation.monoid in EXTREMES


def _may_differ(value: Node) -> bool:
    """Whether two kernels may see different numbers, if nothing else is said."""
    is_computed = isinstance(value.operation, COMPUTED) and value.operation is not AS_STORED
    return is_computed and value.dtype.is_float
