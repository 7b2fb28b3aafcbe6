"""Names for sizes that are sums, such as the height after a convolution.

A sum in a shape spreads over every index computed from it: `(height - 2) * (width - 2)` becomes
four terms, which neither a reader nor a divisibility test sees through. So the planner gives each
such size a name of its own, computed once by the host.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from fusegen.ir.graph import Attributes, Graph, Node, Placeholder, TensorType, topological
from fusegen.ir.integers import ONE, Integer, Symbol, divide_exactly
from fusegen.ops.record import SIZE_VALUE
from fusegen.passes.rewrite import rewrite


def name_sizes(graph: Graph) -> Graph:
    """The graph with sums in shapes replaced by symbols that are defined by them."""
    namer = _Namer()
    arguments = graph.placeholders
    for node in (*topological(graph.roots), *arguments):
        # Single sizes first, then products are made of them.
        for size in sorted(node.shape, key=_degree):
            namer.name(size)

    renamed = {node: _typed(node, namer) for node in arguments}

    def rule(node: Node) -> Node:
        if isinstance(node.operation, Placeholder):
            return renamed[node]
        if node.operation is SIZE_VALUE:
            (size,) = node.attributes.sizes("size")
            return replace(node, attributes=Attributes.of(size=namer.name(size)))
        return _typed(node, namer)

    inputs, tensors = (tuple(renamed[x] for x in of) for of in (graph.inputs, graph.tensors))
    if (inputs, tensors) != (graph.inputs, graph.tensors):
        graph = replace(graph, inputs=inputs, tensors=tensors)
    return rewrite(graph, rule)


def _typed(node: Node, namer: _Namer) -> Node:
    shape = tuple(namer.name(size) for size in node.shape)
    return node if shape == node.shape else replace(node, type=TensorType(shape, node.dtype))


def definitions(values: tuple[Integer, ...]) -> tuple[Symbol, ...]:
    """The symbols among those in `values` that are defined by others, by name."""
    found = {symbol for value in values for symbol in value.symbols()}
    return tuple(sorted((s for s in found if s.definition is not None), key=lambda s: s.name))


@dataclass
class _Namer:
    known: dict[Integer, Integer] = field(default_factory=dict)

    def name(self, size: Integer) -> Integer:
        """`size` as a product: of itself, of named sums that divide it, or as a sum named now."""
        if len(size.terms) < 2:
            return size
        if size not in self.known:
            self.known[size] = self._factor(size)
        return self.known[size]

    def _factor(self, size: Integer) -> Integer:
        rest, factors = size, ONE
        for total, symbol in self.known.items():
            while len(rest.terms) > 1 and (quotient := divide_exactly(rest, total)) is not None:
                rest, factors = quotient, factors * symbol
        if len(rest.terms) < 2:
            return rest * factors
        return factors * Integer.of_atom(Symbol(_text(rest), definition=rest))


def _degree(size: Integer) -> int:
    return max((len(monomial) for monomial, _ in size.terms), default=0)


def _text(total: Integer) -> str:
    """`height - 2` as `height_minus_2`."""
    added = [str(Integer((term,))) for term in total.terms if term[1] > 0]
    removed = [str(-Integer((term,))) for term in total.terms if term[1] < 0]
    text = " minus ".join([" plus ".join(added) or "0", *removed])
    return "_".join(re.sub(r"\W+", " ", text.replace("*", "times").replace("//", "over")).split())
