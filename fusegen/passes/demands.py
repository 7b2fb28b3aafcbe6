"""What a graph demands of sizes that are known only at run time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fusegen.ir.given_sizes import in_given_sizes
from fusegen.ir.graph import Graph, topological
from fusegen.ir.integers import Integer, product
from fusegen.ops.primitive.views import SLICE
from fusegen.ops.record import Monoid, Reduction

# Operations that refuse to look for an extreme where there is nothing to choose from (a softmax,
# which looks for one too, has no result there), and how they do it.
EXTREMES = frozenset({"amax", "amin", "argmax", "argmin", "norm"})
CHOOSING = frozenset({Monoid.MAXIMUM, Monoid.MINIMUM, Monoid.ARGMAX, Monoid.ARGMIN})


@dataclass(frozen=True)
class Demand:
    """That `count` is no less than `least`, for what the user calls `name`."""

    name: str
    count: Integer
    least: int

    def is_met(self, sizes: Mapping[str, int]) -> bool:
        """Whether it holds for given sizes, by symbol name."""
        return self.count.evaluate(sizes) >= self.least


def batch_counts(graph: Graph) -> tuple[tuple[str, Integer], ...]:
    """How many values each channel of a batch norm in training has, with the layer's path, for each
    time that one is applied: one value has no variance."""
    found = []
    for update in graph.updates:
        node = update.mean
        while not isinstance(node.operation, Reduction):
            node = node.operands[0]
        sizes = node.operands[0].shape
        count = product(sizes[dim] for dim in node.attributes.integers("dims"))
        found.append((update.path, count))
    return tuple(found)


def slice_demands(graph: Graph) -> tuple[Demand, ...]:
    """The sizes of which elements are selected by number, and how many lie before the first and
    behind the last: below 0 where the size is 0, as elsewhere each is taken to be at least 1
    (`is_never_negative`)."""
    found: dict[Demand, None] = {}
    for node in topological(graph.roots):
        if node.operation is SLICE:
            size = node.operands[0].shape[node.attributes.integer("dim")]
            (start,), (stop,) = (node.attributes.sizes(end) for end in ("start", "stop"))
            for left in map(in_given_sizes, (start, size - stop)):
                if any(coefficient < 0 for _, coefficient in left.terms):
                    found[Demand(str(size), left, least=0)] = None
    return tuple(found)


def extreme_demands(graph: Graph) -> tuple[Demand, ...]:
    """The operations that choose one of their operand's elements, and from how many."""
    found: dict[Demand, None] = {}
    for node in topological(graph.roots):
        if not isinstance(node.operation, Reduction) or node.written_as not in EXTREMES:
            continue
        if node.operation.monoid in CHOOSING:
            shape = node.operands[0].shape
            count = product(shape[dim] for dim in node.attributes.integers("dims"))
            if count.constant is None:
                found[Demand(node.written_as, count, least=1)] = None
    return tuple(found)
