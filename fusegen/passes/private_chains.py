"""Reductions along different directions do not share what they reduce."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from fusegen.ir.graph import Graph, Node, topological
from fusegen.ops.pointwise.casting import AS_STORED
from fusegen.ops.record import LibraryCall, Pointwise, Product, Reduction, Reshape, View
from fusegen.passes.compared_values import values_of_distances
from fusegen.passes.rewrite import with_roots

CHEAP = (Pointwise, View, Reshape)


def separate_reductions(graph: Graph) -> Graph:
    """Copy the elementwise operations before a reduction where a reduction along other dims has
    some of them too.

    No kernel does both, so that one would store the shared values for the other. With a copy each
    computes them from what stands in memory anyway. The same holds before a reduction whose results
    are reduced again: what needs those comes in a later kernel. A kernel that has two copies
    computes them once. A value that is a result, or that a product or library reads, is stored and
    not copied; nor is what a product's own kernel makes of its elements, nor one that is compared
    with what is selected from it, or whose distance from that is computed, since a copy is not
    rounded, or otherwise on the way.
    """
    order = topological(graph.roots)
    users = _users(order)
    stored = _stored(order, graph.roots, users)
    chains = {
        node: _chain(node.operands[0], stored)
        for node in order
        if isinstance(node.operation, Reduction)
    }
    directions: dict[Node, set[Hashable]] = {}
    for reduction, chain in chains.items():
        for node in chain:
            directions.setdefault(node, set()).add(_direction(reduction))
    reduced_again = {_base(node.operands[0]) for node in chains}
    done: dict[Node, Node] = {}
    for node in order:
        own = done
        alone = {node, *chains.get(node, ())}
        is_apart = node in reduced_again and any(
            users[part] - alone for part in chains.get(node, ())
        )
        if is_apart or any(len(directions[part]) > 1 for part in chains.get(node, ())):
            own = dict(done)
            for part in chains[node]:
                own[part] = replace(part, operands=tuple(own[operand] for operand in part.operands))
        operands = tuple(own[operand] for operand in node.operands)
        done[node] = node if operands == node.operands else replace(node, operands=operands)
    return with_roots(graph, tuple(done[root] for root in graph.roots))


def _users(order: tuple[Node, ...]) -> dict[Node, set[Node]]:
    found: dict[Node, set[Node]] = {node: set() for node in order}
    for node in order:
        for operand in node.operands:
            found[operand].add(node)
    return found


def _direction(reduction: Node) -> Hashable:
    return (reduction.operands[0].shape, reduction.attributes.integers("dims"))


def _stored(
    order: tuple[Node, ...], roots: tuple[Node, ...], users: dict[Node, set[Node]]
) -> set[Node]:
    """The values that stand in memory whatever is fused."""
    read = [
        operand
        for node in order
        if isinstance(node.operation, (Product, LibraryCall))
        for operand in node.operands
    ]
    made = [node for node in order if _ends_a_product(node, users)]
    compared = [node for node in order if node.operation is AS_STORED and _is_cheap(node)]
    return {_base(n) for n in (*read, *roots, *made, *compared, *values_of_distances(order))}


def _ends_a_product(node: Node, users: dict[Node, set[Node]]) -> bool:
    """Whether nothing but elementwise operations, all of which have one user, stand between a
    product and this one, so that its kernel had better store this one's result alone."""
    below = [node]
    while below:
        (above,) = below
        if isinstance(above.operation, Product):
            return True
        below = [
            operand
            for operand in above.operands
            if isinstance(above.operation, CHEAP)
            and operand.type.count == node.type.count
            and len(users[operand]) == 1
        ]
        if len(below) != 1:
            return False
    return False


def _is_cheap(compared: Node) -> bool:
    """Whether what is compared would be computed again, not read."""
    return isinstance(_base(compared.operands[0]).operation, Pointwise)


def _base(node: Node) -> Node:
    while isinstance(node.operation, (View, Reshape)):
        (node,) = node.operands
    return node


def _chain(operand: Node, stored: set[Node]) -> tuple[Node, ...]:
    """The elementwise operations and views from stored values to `operand`, in order."""
    found: dict[Node, None] = {}
    stack = [(operand, False)]
    while stack:
        node, visited = stack.pop()
        if visited:
            found[node] = None
        elif node not in found and node not in stored and isinstance(node.operation, CHEAP):
            stack.append((node, True))
            stack.extend((below, False) for below in reversed(node.operands))
    return tuple(found)
