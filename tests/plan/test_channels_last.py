"""Which convolutions that PyTorch computes have their channels last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node
from fusegen.ops.primitive.convolutions import CONVOLUTION, CONVOLUTION_CHANNELS_LAST
from fusegen.plan.cost import H100
from fusegen.plan.kernels.elementwise import ElementwisePlan
from fusegen.plan.kernels.library import LibraryPlan
from fusegen.plan.kernels.module import ModulePlan
from fusegen.plan.kernels.rows import RowPlan
from tests.emulated import apply, graph, planned, value

HINTS = {"n": 64, "h": 64, "w": 64}
# On others many convolutions are products.
DEVICE = replace(H100, has_wgmma=False)


def library_plan(graph: Graph, hints: Mapping[str, int] = HINTS) -> ModulePlan:
    """The plan where no convolution of 16 bits is a product."""
    return planned(graph, hints, device=DEVICE)


def convolved(
    channels: int = 64, results: int = 64, dtype: DType = DType.BFLOAT16, **given: object
) -> tuple[list[Node], Node]:
    """The inputs of a convolution with a 3 x 3 kernel, and its result."""
    x = value("x", "n", channels, "h", "w", dtype=dtype)
    weight = value(
        "weight", results, channels // int(str(given.get("groups", 1))), 3, 3, dtype=dtype
    )
    return [x, weight], apply("conv2d", x, weight, **given)


def called(plan: ModulePlan) -> list[object]:
    return [step.node.operation for step in plan.steps if isinstance(step, LibraryPlan)]


def test_what_follows_reads_it_where_it_stands() -> None:
    inputs, result = convolved()
    plan = library_plan(graph(inputs, apply("relu", result)))
    assert called(plan) == [CONVOLUTION_CHANNELS_LAST]
    *copies, call, last = plan.steps
    assert len(copies) == 2 and isinstance(call, LibraryPlan)
    assert isinstance(last, ElementwisePlan) and last.tiles is not None
    assert [load.buffer for load in last.tiles.turned] == [call.result]


def test_one_after_the_other_keeps_them_last() -> None:
    inputs, result = convolved()
    again = apply("conv2d", apply("relu", result), inputs[1])
    plan = library_plan(graph(inputs, apply("relu", again)))
    assert called(plan) == [CONVOLUTION_CHANNELS_LAST] * 2
    turning = [s for s in plan.steps if isinstance(s, ElementwisePlan) and s.tiles is not None]
    assert len(turning) == 2  # the input, and the result: not what stands between


def test_a_result_that_is_returned_has_its_channels_second() -> None:
    inputs, result = convolved()
    plan = library_plan(graph(inputs, result))
    assert called(plan) == [CONVOLUTION_CHANNELS_LAST]
    assert plan.results[0].shape[:2] == result.shape[:2]
    assert isinstance(plan.steps[-1], ElementwisePlan) and plan.steps[-1].tiles is not None


@pytest.mark.parametrize(
    "case",
    [
        convolved(dtype=DType.FLOAT32),
        convolved(channels=60),
        convolved(results=12),
        convolved(groups=2),
    ],
    ids=["float32", "odd channels", "odd results", "groups"],
)
def test_others_have_them_second(case: tuple[list[Node], Node]) -> None:
    inputs, result = case
    assert called(library_plan(graph(inputs, apply("relu", result)))) == [CONVOLUTION]


@pytest.mark.parametrize(
    ("follows", "record"),
    [
        (lambda y: apply("amax", y, dim=1), CONVOLUTION_CHANNELS_LAST),
        (lambda y: apply("sum", y, dim=(0, 2, 3)), CONVOLUTION_CHANNELS_LAST),
        (lambda y: apply("max_pool2d", apply("relu", y), kernel_size=2), CONVOLUTION_CHANNELS_LAST),
        (lambda y: apply("mean", y, dim=(2, 3)), CONVOLUTION),
        (lambda y: apply("sum", y, dim=3), CONVOLUTION),
        (lambda y: apply("softmax", y, dim=1), CONVOLUTION),
        (lambda y: apply("group_norm", y, num_groups=8), CONVOLUTION),
    ],
    ids=["extremes", "all pixels", "pooling", "an image", "a line", "softmax", "groups"],
)
def test_it_depends_on_what_follows(follows: object, record: object) -> None:
    inputs, result = convolved()
    plan = library_plan(graph(inputs, follows(result)))  # type: ignore[operator]
    assert record in called(plan)


def test_operands_are_copied_once() -> None:
    x, weight, other = (
        value("x", "n", 64, "h", "w", dtype=DType.BFLOAT16),
        *(value(name, 64, 64, 3, 3, dtype=DType.BFLOAT16) for name in ("weight", "other")),
    )
    first, second = (apply("conv2d", x, w) for w in (weight, other))
    again = apply("conv2d", apply("relu", first), weight)
    plan = library_plan(graph([x, weight, other], apply("relu", second), apply("relu", again)))
    assert called(plan) == [CONVOLUTION_CHANNELS_LAST] * 3
    read = [
        buffer for step in plan.steps if isinstance(step, LibraryPlan) for buffer in step.operands
    ]
    assert len(read) == 6 and len(set(read)) == 4  # x, relu's result, and both weights


def test_copies_must_pay() -> None:
    inputs, result = convolved()
    plan = library_plan(graph(inputs, apply("relu", result)), {"n": 1, "h": 8, "w": 8})
    assert called(plan) == [CONVOLUTION]


def test_a_normalisation_over_a_batch_takes_its_statistics_in_many_blocks() -> None:
    x, weight, bias = value("x", "n", 64), value("weight", 4096, 64), value("bias", 4096)
    made = apply("batch_norm", apply("linear", x, weight, bias), training=True)
    plan = library_plan(graph([x, weight, bias], made), {"n": 1024})
    partial = [step for step in plan.steps if isinstance(step, RowPlan) and step.parts > 1]
    assert len(partial) == 1
    assert isinstance(plan.steps[-1], ElementwisePlan)
