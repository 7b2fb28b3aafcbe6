"""Rewrites of a graph that depend on what kernels can do: the planner's own passes, which it runs
before anything else."""

from __future__ import annotations

from functools import partial

from fusegen.ir.graph import Graph
from fusegen.passes import pipeline
from fusegen.passes.inner_sums import sum_inner_dims_first
from fusegen.passes.library_operands import store_library_operands
from fusegen.passes.pipeline import Pass
from fusegen.passes.private_chains import separate_reductions
from fusegen.plan.channels_last import put_channels_last
from fusegen.plan.convolution_products import multiply_windows
from fusegen.plan.cost import H100, Device, SizeHints
from fusegen.plan.scattered_operands import store_scattered_operands
from fusegen.plan.small_windows import open_small_windows
from fusegen.plan.strategies import piece_sums

ARRANGING = (
    Pass("sum inner dims first", partial(sum_inner_dims_first, stays_whole=piece_sums.keeps)),
    Pass("separate reductions", separate_reductions),
)


def arranged(
    graph: Graph,
    device: Device = H100,
    hints: SizeHints | None = None,
    watch: pipeline.Watch = pipeline.unseen,
) -> Graph:
    """A decomposed graph as kernels compute it on that device: convolutions of many channels as
    products, or the library's with channels last, small poolings as elementwise operations, sums in
    one step or in two, and what reductions along different dims need computed for each. `watch`
    sees it after each pass that changed it."""
    hints = SizeHints.of(graph) if hints is None else hints
    passes = (
        Pass("multiply windows", partial(multiply_windows, device=device, hints=hints)),
        Pass("put channels last", partial(put_channels_last, device=device, hints=hints)),
        Pass("store library operands again", store_library_operands),
        Pass("open small windows", open_small_windows),
    )
    return pipeline.run(graph, watch, (*passes, *ARRANGING))


def with_stored_operands(
    graph: Graph, device: Device, hints: SizeHints, watch: pipeline.Watch = pipeline.unseen
) -> Graph:
    """The same, once its sizes are named, with copies of what products had better read as matrices
    on that device."""
    storing = partial(store_scattered_operands, device=device, hints=hints)
    return pipeline.run(graph, watch, (Pass("store scattered operands", storing),))
