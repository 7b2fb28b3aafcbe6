"""All passes, in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fusegen.ir.graph import Graph
from fusegen.passes.common_values import share_common_values
from fusegen.passes.decompose import decompose
from fusegen.passes.inner_sums import sum_inner_dims_first
from fusegen.passes.legality import check
from fusegen.passes.library_operands import store_library_operands
from fusegen.passes.private_chains import separate_reductions
from fusegen.passes.results import separate_results
from fusegen.passes.simplify import simplify


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
    Pass("separate results", separate_results),
    Pass("sum inner dims first", sum_inner_dims_first),
    Pass("separate reductions", separate_reductions),
)


def run(graph: Graph, watch: Callable[[str, Graph], None] = lambda name, graph: None) -> Graph:
    """The graph in the primitive operations that the planner takes.

    `watch` sees the graph after each pass that changed it. Raises AssertionError if a pass broke
    it: an error of ours, not of the user's.
    """
    for step in PASSES:
        after = step.run(graph)
        if after is not graph:
            check(graph, after, step.name)
            watch(step.name, after)
        graph = after
    return graph
