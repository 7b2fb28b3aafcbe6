"""The symbolic sizes that a person sets on the command line, or that are assumed."""

from __future__ import annotations

from collections.abc import Mapping

from fusegen.errors import FusegenError
from fusegen.frontend.report import listing, nearest
from fusegen.ir.graph import Graph
from fusegen.plan.cost import SizeHints


def check_sizes(graph: Graph, given: Mapping[str, int]) -> None:
    """Raise FusegenError for a size that the graph's inputs do not have."""
    sizes = _names(graph)
    for name in given:
        if name in sizes:
            continue
        known = f"its sizes are {listing(sorted(sizes))}" if sizes else "all its sizes are constant"
        hint = nearest(name, sizes) or known
        if name in graph.arguments:
            hint = f"'{name}' is an argument of the model: set it with -D {name}={given[name]}"
        raise FusegenError(f"model '{graph.name}' has no symbolic size '{name}'", hint)


def assumed_sizes(graph: Graph, hints: SizeHints) -> tuple[tuple[str, int], ...]:
    """The sizes that a graph's inputs have, and what costs reckon with for each."""
    return tuple((name, hints[name]) for name in _names(graph))


def _names(graph: Graph) -> list[str]:
    symbols = (s for node in graph.inputs for size in node.shape for s in size.symbols())
    return [*dict.fromkeys(symbol.name for symbol in symbols)]
