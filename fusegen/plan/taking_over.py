"""Products take over what makes their operands of other products.

The operand of a product that is made, element by element, of others, as the gradients of attention
are multiplied with queries and keys, is as large as the scores. Several products may read it. Where
each makes it anew in its registers, nobody has to store it: what makes it is then in several
groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fusegen.ir.graph import Node
from fusegen.ops.record import Pointwise, Product
from fusegen.passes.results import COMPUTED
from fusegen.plan.group import Group

Producers = Mapping[Node, tuple[Node, ...]]


@dataclass(frozen=True)
class Readers:
    """Groups, by their keys, whose products have operands made of the same products; `makers` are
    the operations that make each one's operand."""

    makers: Mapping[int, frozenset[Node]]

    @property
    def all_makers(self) -> frozenset[Node]:
        """What makes any of the operands."""
        return frozenset().union(*self.makers.values())


def readers_of_products(groups: Mapping[int, Group], producers: Producers) -> list[Readers]:
    """The groups that could take over what makes their operands, together with the others that
    have the same products to take over."""
    found: list[dict[int, frozenset[Node]]] = []
    for key in sorted(groups):
        products = groups[key].having(Product)
        makers = _makers(products[0], producers) if len(products) == 1 else frozenset()
        shared = {node for node in makers if isinstance(node.operation, Product)}
        if not shared or shared & {*groups[key].nodes}:
            continue
        same = [one for one in found if any(shared & m for m in one.values())]
        found = [one for one in found if one not in same]
        found.append({k: m for one in same for k, m in one.items()} | {key: makers})
    return [Readers(one) for one in found]


def _makers(product: Node, producers: Producers) -> frozenset[Node]:
    """The elementwise operations that make one of a product's operands of other products, and
    these; nothing if none is made so."""
    for operand in product.operands:
        found = _made_by(operand, producers)
        if any(isinstance(node.operation, Product) for node in found):
            return found
    return frozenset()


def _made_by(operand: Node, producers: Producers) -> frozenset[Node]:
    """What makes an operand, nothing if that reads something else made of the same products: what
    these are compared with or taken from has to be made of the very same numbers, as a row's
    deviations are of its mean's."""
    found: set[Node] = set()
    read: list[Node] = []
    stack = _through_views(operand)
    while stack:
        node = stack.pop()
        if node in found:
            continue
        if isinstance(node.operation, Product):
            found.add(node)
        elif isinstance(node.operation, Pointwise):
            found.add(node)
            stack += producers.get(node, ())
        else:
            read.append(node)
    products = {node for node in found if isinstance(node.operation, Product)}
    return frozenset() if products & _below(read, producers) else frozenset(found)


def _below(nodes: Iterable[Node], producers: Producers) -> set[Node]:
    """The operations that some values are made of, and these."""
    found: set[Node] = set()
    stack = [*nodes]
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack += producers.get(node, ())
    return found


def _through_views(operand: Node) -> list[Node]:
    while not isinstance(operand.operation, COMPUTED) and operand.operands:
        (operand,) = operand.operands
    return [operand]


def with_makers(
    groups: tuple[Group, ...], makers: frozenset[Node], rank: Mapping[Node, int]
) -> Group:
    """The groups of products as one that makes their operands itself."""
    nodes = makers.union(*(group.nodes for group in groups))
    results = tuple(result for group in groups for result in group.results)
    return Group(tuple(sorted(nodes, key=rank.__getitem__)), results)


def product_alone(group: Group) -> Group:
    """A group's product without what else the group does."""
    products = group.having(Product)
    return Group(products, products)


def left_behind(
    groups: Mapping[int, Group],
    takers: Sequence[Group],
    users: Mapping[Node, frozenset[Node]],
    returned: frozenset[Node],
    producers: Producers,
) -> dict[int, Group | None]:
    """What is left of the groups that have what `takers` make or store what these read, once there
    are the takers; None of those of which nothing is needed any more."""
    made = {node for taker in takers for node in taker.nodes}
    stored = {result for taker in takers for result in taker.results}
    read = {producer for node in made for producer in producers[node]}
    touched = {k: group for k, group in groups.items() if (made | read) & {*group.nodes}}
    nodes = {node for group in touched.values() for node in group.nodes} - stored
    untouched = {n for key, group in groups.items() if key not in touched for n in group.nodes}

    def is_read(node: Node, by: set[Node]) -> bool:
        """Whether groups that others are, or a taker that does not make it, read a value."""
        of_takers = (taker.nodes for taker in takers if node not in taker.nodes)
        return node in returned or bool(users[node] & by.union(*of_takers))

    needed = {node for node in nodes if node not in made or is_read(node, untouched)}
    stack = [*needed]
    while stack:
        for producer in producers[stack.pop()]:
            if producer in nodes and producer not in needed:
                needed.add(producer)
                stack.append(producer)
    left: dict[int, Group | None] = {}
    for key, group in touched.items():
        kept = tuple(node for node in group.nodes if node in needed)
        elsewhere = (needed - {*kept}) | untouched
        results = tuple(node for node in kept if is_read(node, elsewhere))
        left[key] = Group(kept, results) if kept else None
    return left
