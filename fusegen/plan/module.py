"""The planner's entry: from a graph of primitive operations to the plan of the whole module."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node, shown_name, topological
from fusegen.ops.record import Reshape
from fusegen.passes.pipeline import Watch, unseen
from fusegen.passes.results import COMPUTED
from fusegen.plan.arranging import arranged, with_stored_operands
from fusegen.plan.buffers import Buffer, BufferRole
from fusegen.plan.cost import H100, Device, SizeHints
from fusegen.plan.group import Context
from fusegen.plan.in_place import with_results_in_place
from fusegen.plan.kernels.convolution import ConvolutionPlan
from fusegen.plan.kernels.library import LibraryPlan
from fusegen.plan.kernels.module import ModulePlan, Step
from fusegen.plan.kernels.product import ProductPlan
from fusegen.plan.kernels.rows import RowPlan
from fusegen.plan.labels import labels_of
from fusegen.plan.lifetimes import releases
from fusegen.plan.partition import Part, partition
from fusegen.plan.precision import Precision
from fusegen.plan.preferences import UNTUNED, Preferences
from fusegen.plan.rounding import as_stored
from fusegen.plan.sizes import name_sizes

# How many operations' names a kernel's name is made of.
NAME_PARTS = 3


def plan_module(
    graph: Graph,
    dtype: DType,
    hints: SizeHints | None = None,
    device: Device = H100,
    precision: Precision = Precision.HIGHEST,
    spent: Collection[int] = (),
    preferences: Preferences = UNTUNED,
    watch: Watch = unseen,
) -> ModulePlan:
    """The plan for a decomposed graph whose roots are all distinct computed values.

    `hints` stand for symbolic sizes where a choice depends on them; the plan is right at any size.
    `precision` is that of float32 products. Of its arguments the caller has no further use for
    those in `spent`, by position. `preferences` are what was tuned on the card at hand. `watch`
    sees the graph after each of the planner's own passes that changed it.
    """
    hints = SizeHints.of(graph) if hints is None else hints
    graph = with_stored_operands(
        name_sizes(arranged(graph, device, hints, watch)), device, hints, watch
    )
    buffers = buffers_of(graph)
    context = Context(buffers, device, hints, precision, preferences=preferences)
    parts = as_stored(graph, partition(graph, context), context)
    steps = with_results_in_place(_named(parts), hints)
    arguments = tuple(buffers[node] for node in graph.placeholders)
    results = tuple(replace(buffers[base(root)], type=root.type) for root in graph.roots)
    written = dict.fromkeys(buffer for step in steps for buffer in step.written)
    workspaces = tuple(buffer for buffer in written if buffer.role is BufferRole.WORKSPACE)
    given_back = releases(steps, [arguments[position] for position in spent], hints)
    return ModulePlan(graph, dtype, arguments, results, workspaces, steps, given_back)


def base(node: Node) -> Node:
    """The value whose memory `node` is: reshapes of a contiguous value look at the same bytes."""
    while isinstance(node.operation, Reshape):
        (node,) = node.operands
    return node


def buffers_of(graph: Graph) -> dict[Node, Buffer]:
    """A buffer for every value that might stand in memory, with distinct C names."""
    roots = {base(root): root for root in graph.roots}
    taken: set[str] = set()
    buffers: dict[Node, Buffer] = {}
    for node in graph.placeholders:
        name = _distinct(shown_name(node), taken)
        buffers[node] = Buffer(name, BufferRole.ARGUMENT, node.type)
    returned = {o.node: o.name for o in (*graph.outputs, *graph.saved)}
    for node in topological(graph.roots):
        if isinstance(node.operation, COMPUTED):
            root = roots.get(node)
            role = BufferRole.WORKSPACE if root is None else BufferRole.RESULT
            wanted = returned.get(root) if root is not None else None
            name = _distinct(wanted or node.name or node.operation.name, taken)
            buffers[node] = Buffer(name, role, node.type)
    return buffers


def _distinct(wanted: str, taken: set[str]) -> str:
    stem = re.sub(r"\W", "_", wanted)
    name, number = stem, 2
    while name in taken:
        name, number = f"{stem}_{number}", number + 1
    taken.add(name)
    return name


def _named(parts: tuple[Part, ...]) -> tuple[Step, ...]:
    """The steps of all groups, kernels named after what they compute and no other does, if there is
    such a thing."""
    taken: set[str] = set()
    steps: list[Step] = []
    groups = Counter(node for part in parts for node in part.group.nodes)
    for part in parts:
        alone = tuple(node for node in part.group.nodes if groups[node] == 1)
        stem = _stem(alone or part.group.nodes)
        for step in part.verdict.steps:
            if isinstance(step, LibraryPlan):
                steps.append(step)
                continue
            suffix = "" if len(part.verdict.steps) == 1 else _suffix(step)
            steps.append(replace(step, name=_distinct(f"{stem}{suffix}", taken)))
    return tuple(steps)


def _suffix(step: Step) -> str:
    if isinstance(step, ConvolutionPlan) and not step.states:
        return "_again"
    if isinstance(step, (ConvolutionPlan, ProductPlan)):
        return "_partial"
    if isinstance(step, RowPlan) and (
        step.program.states or step.program.sums or step.program.pieces
    ):
        return "_partial"
    return "_finish"


def _stem(nodes: tuple[Node, ...]) -> str:
    names = dict.fromkeys(label.name or label.operation for label in labels_of(nodes))
    return "_".join(re.sub(r"\W", "_", name) for name in [*names][:NAME_PARTS])
