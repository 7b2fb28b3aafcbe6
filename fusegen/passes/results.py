"""Every result gets memory of its own."""

from __future__ import annotations

from fusegen.ir.graph import Graph, Node
from fusegen.ops.construct import call, is_number
from fusegen.ops.pointwise.casting import CAST
from fusegen.ops.pointwise.functions import CLONE
from fusegen.ops.record import (
    Concatenation,
    LibraryCall,
    Pointwise,
    Product,
    Reduction,
    Reshape,
)
from fusegen.passes.rewrite import with_roots

COMPUTED = (Pointwise, Reduction, Concatenation, Product, LibraryCall)


def separate_results(graph: Graph) -> Graph:
    """Copy a result that would share memory: with an input, with another result, or as a view that
    is not contiguous. A generated operator never returns what it was given, nor one tensor twice.
    """
    taken: set[Node] = set()
    roots = []
    for root in graph.roots:
        source = root
        while isinstance(source.operation, Reshape):
            (source,) = source.operands
        if isinstance(source.operation, COMPUTED) and source not in taken:
            roots.append(root)
            taken.add(source)
        else:
            roots.append(_copied(root))
    return with_roots(graph, tuple(roots))


def _copied(root: Node) -> Node:
    """A copy; that of a number says its dtype, as numbers among operands have none of their own."""
    if is_number(root):
        return call(CAST, (root,), dtype=root.dtype)
    return call(CLONE, (root,))
