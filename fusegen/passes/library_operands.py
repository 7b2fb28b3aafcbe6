"""What a library reads stands in memory."""

from __future__ import annotations

from dataclasses import replace

from fusegen.ir.graph import Graph, Node, Placeholder
from fusegen.ops.construct import call
from fusegen.ops.pointwise.functions import CLONE
from fusegen.ops.record import LibraryCall
from fusegen.passes.results import COMPUTED
from fusegen.passes.rewrite import rewrite


def store_library_operands(graph: Graph) -> Graph:
    """Copy what a library call reads through a view: its kernel cannot look through one, and a
    view has no memory of its own."""

    def rule(node: Node) -> Node:
        if not isinstance(node.operation, LibraryCall):
            return node
        operands = tuple(_stored(operand) for operand in node.operands)
        return node if operands == node.operands else replace(node, operands=operands)

    return rewrite(graph, rule)


def _stored(operand: Node) -> Node:
    stands = isinstance(operand.operation, (Placeholder, *COMPUTED))
    return operand if stands else call(CLONE, (operand,))
