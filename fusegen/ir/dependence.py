"""Through which values gradients flow."""

from __future__ import annotations

from fusegen.ir.graph import Node, Placeholder, topological


def gradient_sources(roots: tuple[Node, ...]) -> tuple[frozenset[Node], ...]:
    """For each root, the placeholders that PyTorch's autograd would connect it to: those of a
    floating-point dtype from which a way through floating-point values leads to it."""
    sources: dict[Node, frozenset[Node]] = {}
    for node in topological(roots):
        if not node.dtype.is_float:
            sources[node] = frozenset()
        elif isinstance(node.operation, Placeholder):
            sources[node] = frozenset({node})
        else:
            sources[node] = frozenset().union(*(sources[operand] for operand in node.operands))
    return tuple(sources[root] for root in roots)
