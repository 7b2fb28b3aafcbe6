"""What the forward saves for the backward: the choice that moves the fewest bytes.

Elementwise operations can be computed again in the kernel that needs them. Products, library calls
and reductions are not: their results are saved, or something made from them. Neither is what a
gradient compares with a result. The scores of attention that is one kernel are computed again, as
nobody stores them.
"""

from __future__ import annotations

from collections.abc import Collection

from fusegen.ir.graph import Graph, Node, Placeholder, topological
from fusegen.ops.construct import is_number
from fusegen.ops.pointwise.casting import AS_STORED
from fusegen.ops.record import LibraryCall, Product, Reduction, Reshape, View
from fusegen.passes.differentiation.attention import Attention
from fusegen.passes.differentiation.cut import cheapest_cut
from fusegen.passes.results import COMPUTED

NOT_AGAIN = (Product, LibraryCall, Reduction)
# What a symbolic size is taken for, where the choice depends on it.
ANY_SIZE = 1024


def values_to_save(
    forward: Graph,
    upstream: frozenset[Node],
    gradients: tuple[Node, ...],
    attentions: Collection[Attention] = (),
) -> tuple[Node, ...]:
    """The computed values of the forward, in its order, from which together with the arguments
    the `gradients` are computed; `upstream` are the gradients handed in. The scores of the
    `attentions` are nowhere in memory.

    A saved value costs its bytes to read; those to write too, unless it is an output or stands in
    memory anyway, as what a product or a library reads does. One that a product or library of the
    backward reads has to be written there if it is computed again.
    """
    rests = {one.rest for one in attentions}
    order = topological((*forward.roots, *(one.reciprocal for one in attentions), *rests))
    computed = set(order)
    below = topological(gradients)
    after = _downstream(below, upstream)
    given = [node for node in below if node not in after and not is_number(node)]
    inside = set(given)
    scored = {one.scored for one in attentions}
    stored = _stored(order, forward)
    needed = [node for node in below if node in after]
    read = {operand for node in needed for operand in node.operands if operand in inside}
    read_again = (*(node for node in needed if _reads_memory(node)), *scored)
    written_again = {_base(x) for n in read_again for x in n.operands} & inside
    compared = {_base(n.operands[0]) for n in below if n.operation is AS_STORED}
    costs: dict[Node, int | None] = {}
    sources: dict[Node, int | None] = {}
    for node in given:
        size = node.type.count.evaluate(_AnySize()) * node.dtype.itemsize
        if isinstance(node.operation, Placeholder):
            costs[node], sources[node] = size, None
        elif node in computed and isinstance(node.operation, COMPUTED):
            costs[node] = size if node in stored else 2 * size
            if node in scored:
                pass  # made again from its operands
            elif node in compared | rests or isinstance(node.operation, NOT_AGAIN):
                sources[node] = None
            elif node in written_again:
                sources[node] = 2 * size
        else:
            costs[node] = None
    edges = [(operand, n) for n in given for operand in n.operands if operand in inside]
    chosen = cheapest_cut(costs, edges, sources, read)
    return tuple(n for n in order if n in chosen and not isinstance(n.operation, Placeholder))


class _AnySize(dict[str, int]):
    def __missing__(self, name: str) -> int:
        return ANY_SIZE


def _downstream(order: tuple[Node, ...], upstream: frozenset[Node]) -> set[Node]:
    """The values that depend on a gradient handed in."""
    found: set[Node] = set()
    for node in order:
        if node in upstream or any(operand in found for operand in node.operands):
            found.add(node)
    return found


def _stored(order: tuple[Node, ...], forward: Graph) -> set[Node]:
    """What stands in memory in the forward whether it is saved or not."""
    read = {_base(x) for node in order if _reads_memory(node) for x in node.operands}
    called = {node for node in order if isinstance(node.operation, LibraryCall)}
    return read | called | {_base(output.node) for output in forward.outputs}


def _reads_memory(node: Node) -> bool:
    return isinstance(node.operation, (Product, LibraryCall))


def _base(node: Node) -> Node:
    """What a view looks at."""
    while isinstance(node.operation, (View, Reshape)):
        (node,) = node.operands
    return node
