"""What must hold after every pass."""

from __future__ import annotations

from fusegen.ir.graph import Graph, topological
from fusegen.ops.record import Record


def check(before: Graph, after: Graph, name: str) -> None:
    """Every root keeps its type, and every node has the type its operation infers.

    Raises AssertionError that names the pass.
    """
    old, new = ([root.type for root in graph.roots] for graph in (before, after))
    assert old == new, f"the pass '{name}' changed a result from {old} to {new}"
    for node in topological(after.roots):
        if isinstance(node.operation, Record):
            types = tuple(operand.type for operand in node.operands)
            inferred = node.operation.infer(types, node.attributes)
            assert inferred == node.type, f"the pass '{name}' left {node.type} for {inferred}"
