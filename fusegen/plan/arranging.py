"""Rewrites of a graph that depend on what kernels can do: the planner's own passes, which it runs
before anything else."""

from __future__ import annotations

from functools import partial

from fusegen.ir.graph import Graph
from fusegen.passes import pipeline
from fusegen.passes.inner_sums import sum_inner_dims_first
from fusegen.passes.pipeline import Pass
from fusegen.passes.private_chains import separate_reductions
from fusegen.plan.strategies import piece_sums

ARRANGING = (
    Pass("sum inner dims first", partial(sum_inner_dims_first, stays_whole=piece_sums.keeps)),
    Pass("separate reductions", separate_reductions),
)


def arranged(graph: Graph, watch: pipeline.Watch = pipeline.unseen) -> Graph:
    """A decomposed graph as kernels compute it: sums in one step or in two, and what reductions
    along different dims need computed for each. `watch` sees it after each pass that changed it."""
    return pipeline.run(graph, watch, ARRANGING)
