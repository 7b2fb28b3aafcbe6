"""One node for equal values, however they were written."""

from __future__ import annotations

import pytest

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Node, topological
from fusegen.ops import build
from fusegen.ops.record import Reduction
from fusegen.passes.common_values import share_common_values
from tests.emulated import graph, value


def reductions(*results: Node, inputs: list[Node]) -> list[Node]:
    shared = share_common_values(graph(inputs, *results))
    assert [root.type for root in shared.roots] == [result.type for result in results]
    return [node for node in topological(shared.roots) if isinstance(node.operation, Reduction)]


@pytest.mark.parametrize("first", [True, False])
def test_a_reduction_that_keeps_its_dims_serves_for_one_that_does_not(first: bool) -> None:
    x = value("x", "n", 6)
    pair = (build.total(x, (1,), kept) for kept in (first, not first))
    assert len(reductions(*pair, inputs=[x])) == 1


def test_others_are_not_shared() -> None:
    x = value("x", "n", "n")
    several = [build.total(x, (0,)), build.total(x, (1,)), build.amax(x, (0,))]
    assert len(reductions(*several, inputs=[x])) == 3


@pytest.mark.parametrize("dtype", [DType.BFLOAT16, DType.FLOAT16])
def test_a_wider_type_is_the_same_however_it_was_asked_for(dtype: DType) -> None:
    x = value("x", "n", 6, dtype=dtype)
    both = build.to_compute(x), build.cast(x, DType.FLOAT32)
    sums = [build.total(wide, (1,), kept) for wide, kept in zip(both, (True, False), strict=True)]
    assert len(reductions(*sums, inputs=[x])) == 1
    double = build.total(build.cast(x, DType.FLOAT64), (1,))
    assert len(reductions(sums[0], double, inputs=[x])) == 2
