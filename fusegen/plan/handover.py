"""Handing the elementwise end of a kernel over to those that read it.

A group grows from producers to users, so what follows a row's statistics element by element, such
as the last operations of a normalisation, is the row kernel's, which stores a tensor as large as
the one it reads. A product can make that operand of its own while it loads what the row kernel
reads, from the statistics: then these are all that is stored.

Nor does what follows a product begin in the product's kernel with its widening, as a layer norm's:
a value of 16 bits is stored as that, and widened where it is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fusegen.ir.graph import Node, topological
from fusegen.ops.pointwise.casting import AS_STORED
from fusegen.ops.record import Pointwise, Reduction
from fusegen.passes.compared_values import values_of_distances
from fusegen.plan.group import Group

Producers = Mapping[Node, tuple[Node, ...]]


@dataclass(frozen=True)
class Handover:
    """What is left of the group that had the end, and the groups that have it now, each for itself,
    in the order of those that read it. Operations that lead to both are in all of them."""

    keeper: Group
    takers: tuple[Group, ...]
    moved: frozenset[Node]


def handover(
    end: Node,
    keeper: Group,
    takers: Sequence[Group],
    producers: Producers,
    rank: Mapping[Node, int],
) -> Handover | None:
    """The groups after `takers` have taken over the result `end` of `keeper`, if that leaves
    anything behind."""
    chain, read = _elementwise_end(end, keeper, producers)
    others = {result for result in keeper.results if result is not end} | read
    left = _needed_for(others, keeper, producers)
    if not chain or not left:
        return None
    kept = tuple(node for node in keeper.nodes if node in left)
    return Handover(
        Group(kept, tuple(node for node in kept if node in others)),
        tuple(
            Group(tuple(sorted(chain | {*taker.nodes}, key=rank.__getitem__)), taker.results)
            for taker in takers
        ),
        frozenset(chain - left),
    )


def widening_handed_over(
    widened: Node,
    keeper: Group,
    takers: Sequence[Group],
    producers: Producers,
    rank: Mapping[Node, int],
) -> Handover | None:
    """The groups after `takers` widen what `keeper` stores by themselves, where that is a value of
    its own: `widened` is its result, in a type of more bytes than it was made in."""
    sources = producers[widened]
    if not sources or not set(sources) <= {*keeper.nodes}:
        return None
    is_used = any(widened in producers[node] for node in keeper.nodes)
    others = {result for result in keeper.results if result is not widened} | {*sources}
    return Handover(
        Group(
            tuple(node for node in keeper.nodes if is_used or node is not widened),
            tuple(node for node in keeper.nodes if node in others),
        ),
        tuple(
            Group(tuple(sorted((widened, *taker.nodes), key=rank.__getitem__)), taker.results)
            for taker in takers
        ),
        frozenset() if is_used else frozenset((widened,)),
    )


def _elementwise_end(end: Node, keeper: Group, producers: Producers) -> tuple[set[Node], set[Node]]:
    """The group's operations that `end` is made by, element by element, and those of its values
    that they read: what it stores for others, reductions, what is made of these for each row, as it
    would be computed for each element else, and what is compared with something selected from it,
    or taken from that, which must be one value for both."""
    inside, stored = {*keeper.nodes}, {*keeper.results} - {end}
    reduced = _made_of_reductions(keeper, producers)
    held = values_of_distances(topological(keeper.results))
    chain: set[Node] = set()
    read: set[Node] = set()
    stack = [end]
    while stack:
        node = stack.pop()
        if node not in inside or node in chain or node in read:
            continue
        is_for_rows = node in reduced and node.type.count != end.type.count
        is_compared = node.operation is AS_STORED and bool(inside & {*producers[node]})
        is_held = is_compared or node in held
        if node in stored or is_for_rows or is_held or not isinstance(node.operation, Pointwise):
            read.add(node)
        else:
            chain.add(node)
            stack += producers[node]
    return chain, read


def _made_of_reductions(group: Group, producers: Producers) -> set[Node]:
    found: set[Node] = set()
    for node in group.nodes:
        below = any(producer in found for producer in producers[node])
        if below or isinstance(node.operation, Reduction):
            found.add(node)
    return found


def _needed_for(values: set[Node], group: Group, producers: Producers) -> set[Node]:
    """The operations of a group that lead to some of its values, and these."""
    found = set(values)
    for node in reversed(group.nodes):
        if node in found:
            found.update(producer for producer in producers[node] if producer in group.nodes)
    return found
