"""All passes up to the planner's own, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fusegen.ir.graph import Graph
from fusegen.passes.common_values import share_common_values
from fusegen.passes.compared_values import hold_compared_values
from fusegen.passes.decompose import decompose
from fusegen.passes.legality import check
from fusegen.passes.library_operands import store_library_operands
from fusegen.passes.results import separate_results
from fusegen.passes.simplify import simplify

Watch = Callable[[str, Graph], None]
"""Is told the name of a pass, and the graph after it."""


def unseen(name: str, graph: Graph) -> None:
    """For those who do not watch."""


@dataclass(frozen=True)
class Pass:
    """A named rewrite of the whole graph; it returns the same object where nothing changed."""

    name: str
    run: Callable[[Graph], Graph]


PASSES = (
    Pass("decompose", decompose),
    Pass("share common values", share_common_values),
    Pass("simplify", simplify),
    Pass("store library operands", store_library_operands),
    Pass("share common values again", share_common_values),
    Pass("hold compared values", hold_compared_values),
    Pass("separate results", separate_results),
)


def run(graph: Graph, watch: Watch = unseen, passes: Sequence[Pass] = PASSES) -> Graph:
    """The graph in the primitive operations that the planner takes, or what other `passes` make of
    it: the planner has some of its own (`plan/arranging.py`).

    `watch` sees the graph after each pass that changed it. Raises AssertionError if a pass broke
    it: an error of ours, not of the user's.
    """
    for step in passes:
        after = step.run(graph)
        if after is not graph:
            check(graph, after, step.name)
            watch(step.name, after)
        graph = after
    return graph
