"""Whether the results of several modules of one model are right, such as those on tiles of several
widths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from fusegen.errors import FusegenError
from fusegen.ir.graph import Graph
from fusegen.testing.bounds import SECOND_LOOK, Bound, bounds
from fusegen.testing.judging import Finding, judge, wrong_type
from fusegen.testing.refusals import Unsuitable
from fusegen.testing.rounding import precision_by_settings


def what_is_wrong(
    graph: Graph,
    tensors: Sequence[Tensor],
    eager: Sequence[Tensor],
    alternatives: Sequence[Sequence[Tensor]],
    sizes: Mapping[str, int],
) -> tuple[str | None, ...]:
    """Of each alternative what is wrong with its first wrong result, None where all are right.

    `tensors` are the graph's inputs, parameters and buffers in order, `eager` PyTorch's results
    under the settings at hand, and `sizes` all symbolic ones. Each element may be as far from
    float64's as the roundings on the way can move it: those of sums by their lengths and by the
    type that they accumulate in, carried through whatever comes after (`fusegen.testing.bounds`).
    FusegenError where that cannot be computed.
    """
    on_gpu = any(tensor.is_cuda for tensor in tensors)

    def limits(looks: int) -> tuple[Bound, ...]:
        return bounds(graph, tensors, eager, sizes, precision_by_settings(on_gpu), looks)

    try:
        usual = limits(1)
        suspected = [_first_wrong(usual, results, eager) for results in alternatives]
        if not any(suspected):
            return (None,) * len(alternatives)
        further = limits(SECOND_LOOK)
    except Unsuitable as reason:
        raise FusegenError(
            f"there is nothing to compare the results with: {reason}", "set other sizes with --size"
        ) from reason
    pairs = zip(suspected, alternatives, strict=True)
    found = [_first_wrong(further, results, eager) if first else None for first, results in pairs]
    return tuple(f"{f.headline}; {f.details}" if f else None for f in found)


def _first_wrong(
    limits: Sequence[Bound], results: Sequence[Tensor], eager: Sequence[Tensor]
) -> Finding | None:
    for bound, result, peer in zip(limits, results, eager, strict=True):
        finding = wrong_type(bound.name, result, peer) or judge(bound, result)
        if finding:
            return finding
    return None
