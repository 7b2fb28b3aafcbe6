"""What is compared with a selection from itself is one value for both sides."""

from __future__ import annotations

from dataclasses import replace

from fusegen.ir.graph import Graph, Node, topological
from fusegen.ops import build
from fusegen.ops.pointwise.casting import AS_STORED, CAST
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
EXTREMES = (Monoid.MAXIMUM, Monoid.MINIMUM)
COMPUTED = (Pointwise, Reduction, Product, LibraryCall)


def hold_compared_values(graph: Graph) -> Graph:
    """Take a value as it is stored wherever a comparison has something selected from it on both
    sides, as `p >= amax(p, dim)` has `p`: then whoever uses it sees the same number, and some
    element of each row is its greatest.

    A kernel would else find the greatest of the values in its registers, store it rounded, and
    another one compare that with values which it computes again and does not round.
    """
    order = topological(graph.roots)
    sources: dict[Node, frozenset[Node]] = {}
    held: set[Node] = set()
    for node in order:
        below = [sources[operand] for operand in node.operands]
        if node.operation in COMPARISONS:
            held |= below[0] & below[1]
        selects = _selects(node)
        sources[node] = frozenset[Node]().union(*below) if selects else frozenset({node})
    done: dict[Node, Node] = {}
    for node in order:
        operands = tuple(done[operand] for operand in node.operands)
        made = node if operands == node.operands else replace(node, operands=operands)
        done[node] = build.as_stored(made) if node in held and _may_differ(node) else made
    return with_roots(graph, tuple(done[root] for root in graph.roots))


def _selects(node: Node) -> bool:
    """Whether the elements are those of operands, or what no rounding makes of them."""
    operation = node.operation
    if isinstance(operation, Pointwise):
        return operation.exact or (operation is CAST and _widens(node))
    if isinstance(operation, Reduction):
        return operation.monoid in EXTREMES
    return isinstance(operation, (View, Reshape, Concatenation))


def _widens(cast: Node) -> bool:
    before, after = cast.operands[0].dtype, cast.dtype
    return before.is_float and after.is_float and after.itemsize > before.itemsize


def _may_differ(value: Node) -> bool:
    """Whether two kernels may see different numbers, if nothing else is said."""
    is_computed = isinstance(value.operation, COMPUTED) and value.operation is not AS_STORED
    return is_computed and value.dtype.is_float
