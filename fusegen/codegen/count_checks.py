"""What must have elements to be computed from, where their number is known only at run time."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.codegen.given_sizes import in_given_sizes
from fusegen.ir.graph import Graph, topological
from fusegen.ir.integers import Integer, product
from fusegen.ops.primitive.views import SLICE
from fusegen.ops.record import LibraryCall, Monoid, Reduction
from fusegen.plan.kernels.convolution import ConvolutionPlan
from fusegen.plan.kernels.module import ModulePlan
from fusegen.plan.labels import labels_of

# Operations that refuse to look for an extreme where there is nothing to choose from (a softmax,
# which looks for one too, has no result there), and how they do it.
EXTREMES = frozenset({"amax", "amin", "argmax", "argmin", "norm"})
CHOOSING = frozenset({Monoid.MAXIMUM, Monoid.MINIMUM, Monoid.ARGMAX, Monoid.ARGMIN})


@dataclass(frozen=True)
class CountCheck:
    """The check that `count` values are enough for what the user calls `name`: `check_<kind>` in
    the binding's header refuses others."""

    kind: str
    name: str
    count: Integer


def batch_counts(graph: Graph) -> tuple[tuple[str, Integer], ...]:
    """How many values each channel of a batch norm in training has, with the layer's path, for each
    time that one is applied."""
    found = []
    for update in graph.updates:
        node = update.mean
        while not isinstance(node.operation, Reduction):
            node = node.operands[0]
        sizes = node.operands[0].shape
        count = product(sizes[dim] for dim in node.attributes.integers("dims"))
        found.append((update.path, count))
    return tuple(found)


def count_checks(
    plan: ModulePlan, batches: tuple[tuple[str, Integer], ...]
) -> tuple[CountCheck, ...]:
    """The checks that a plan needs; `batches` are the graph's `batch_counts`."""
    return (
        *(CountCheck("batch", layer, count) for layer, count in dict.fromkeys(batches)),
        *_extremes(plan.graph),
        *_windows(plan),
        *slice_checks(plan.graph),
    )


def slice_checks(graph: Graph) -> tuple[CountCheck, ...]:
    """The sizes of which elements are selected by number, and how many lie before the first and
    behind the last: below 0 where the size is 0, as elsewhere each is taken to be at least 1
    (`is_never_negative`)."""
    found: dict[CountCheck, None] = {}
    for node in topological(graph.roots):
        if node.operation is SLICE:
            size = node.operands[0].shape[node.attributes.integer("dim")]
            (start,), (stop,) = (node.attributes.sizes(end) for end in ("start", "stop"))
            for left in map(in_given_sizes, (start, size - stop)):
                if any(coefficient < 0 for _, coefficient in left.terms):
                    found[CountCheck("slice", str(size), left)] = None
    return tuple(found)


def _extremes(graph: Graph) -> tuple[CountCheck, ...]:
    """The operations that choose one of their operand's elements, and from how many."""
    found: dict[CountCheck, None] = {}
    for node in topological(graph.roots):
        if not isinstance(node.operation, Reduction) or node.written_as not in EXTREMES:
            continue
        if node.operation.monoid in CHOOSING:
            shape = node.operands[0].shape
            count = product(shape[dim] for dim in node.attributes.integers("dims"))
            if count.constant is None:
                found[CountCheck("extreme", node.written_as, count)] = None
    return tuple(found)


def _windows(plan: ModulePlan) -> tuple[CountCheck, ...]:
    """The convolutions that kernels of the plan compute, and the sizes of their results: a
    library's convolution refuses an input that is too small itself."""
    found: dict[CountCheck, None] = {}
    for step in plan.steps:
        if isinstance(step, ConvolutionPlan):
            (node,) = (n for n in step.covers if isinstance(n.operation, LibraryCall))
            for size in (step.axes.height, step.axes.width):
                if size.constant is None:
                    found[CountCheck("window", str(labels_of((node,))[0]), size)] = None
    return tuple(found)
