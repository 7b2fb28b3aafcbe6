"""The checks of a call: what must have elements to be computed from, where their number is known
only at run time."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.ir.integers import Integer
from fusegen.ops.record import LibraryCall
from fusegen.passes.demands import extreme_demands, slice_demands
from fusegen.plan.kernels.convolution import ConvolutionPlan
from fusegen.plan.kernels.module import ModulePlan
from fusegen.plan.labels import labels_of
from fusegen.plan.small_windows import opened_windows


@dataclass(frozen=True)
class CountCheck:
    """The check that `count` values are enough for what the user calls `name`: `check_<kind>` in
    the binding's header refuses others."""

    kind: str
    name: str
    count: Integer


def count_checks(
    plan: ModulePlan, batches: tuple[tuple[str, Integer], ...]
) -> tuple[CountCheck, ...]:
    """The checks that a plan needs; `batches` are the graph's `batch_counts`."""
    return (
        *(CountCheck("batch", layer, count) for layer, count in dict.fromkeys(batches)),
        *(CountCheck("extreme", each.name, each.count) for each in extreme_demands(plan.graph)),
        *_windows(plan),
        *(CountCheck("slice", each.name, each.count) for each in slice_demands(plan.graph)),
    )


def _windows(plan: ModulePlan) -> tuple[CountCheck, ...]:
    """The convolutions and poolings that kernels of the plan compute, and the sizes of their
    results: the library's refuse an input that is too small themselves."""
    opened = (CountCheck("window", *each) for each in opened_windows(plan.graph))
    found: dict[CountCheck, None] = dict.fromkeys(opened)
    for step in plan.steps:
        if isinstance(step, ConvolutionPlan):
            (node,) = (n for n in step.covers if isinstance(n.operation, LibraryCall))
            for size in (step.axes.planes, step.axes.height, step.axes.width):
                if size.constant is None:
                    found[CountCheck("window", str(labels_of((node,))[0]), size)] = None
    return tuple(found)
