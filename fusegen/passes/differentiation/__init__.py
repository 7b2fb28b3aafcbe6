"""From a model's graph to that of its backward.

`differentiate` takes an elaborated graph and gives two: the forward, which returns the values that
the backward needs after its own results, and the backward, which turns gradients of the outputs
into those of the inputs and parameters. Both then go through the same passes, planner and
templates as any other graph.

    reverse.py  the gradient of each operation, applied from the outputs to the inputs
    saving.py   what the forward saves and what the backward computes again
    cut.py      the minimum cut by which that is decided
    absent.py   the backward where some outputs were not used
"""

from fusegen.passes.differentiation.absent import without
from fusegen.passes.differentiation.differentiate import (
    Differentiated,
    Origin,
    Source,
    differentiate,
    why_not_differentiable,
)

__all__ = [
    "Differentiated",
    "Origin",
    "Source",
    "differentiate",
    "why_not_differentiable",
    "without",
]
