"""What a kernel stores in 16 bits, all kernels use as stored; nothing else is rounded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node, Output
from fusegen.ops.pointwise.casting import AS_STORED
from fusegen.passes import pipeline
from fusegen.plan.expressions import Compute, Expression, walk
from fusegen.plan.kernels.convolution import ConvolutionPlan
from fusegen.plan.kernels.epilogues import ElementEpilogue
from fusegen.plan.kernels.module import Step
from fusegen.plan.kernels.product import ProductPlan
from fusegen.plan.kernels.rows import RowPlan
from fusegen.plan.module import plan_module
from tests.emulated import apply, graph, value
from tests.kernels.families import gelu, linear

HALF = DType.BFLOAT16


def computed(step: Step) -> tuple[Expression, ...]:
    """What a kernel stores or reduces."""
    if isinstance(step, ProductPlan):
        if not isinstance(step.epilogue, ElementEpilogue):
            return step.epilogue.program.values
        return tuple(store.value for store in step.epilogue.stores)
    if isinstance(step, RowPlan):
        return step.program.values
    assert isinstance(step, ConvolutionPlan)
    return step.values


def roundings(model: Graph, *saved: Node) -> list[list[str]]:
    """For each kernel of a graph that also saves some values, what it rounds."""
    kept = tuple(Output(f"saved{i}", node) for i, node in enumerate(saved))
    plan = plan_module(pipeline.run(replace(model, saved=kept)), DType.FLOAT32)
    return [
        [e.operands[0].name for e in walk(computed(step)) if _is_rounding(e)] for step in plan.steps
    ]


def _is_rounding(expression: Expression) -> bool:
    return isinstance(expression, Compute) and expression.operation is AS_STORED


def product(dtype: DType = HALF, columns: int = 64) -> tuple[list[Node], Node]:
    x, weight = value("x", "rows", 32, dtype=dtype), value("weight", columns, 32, dtype=dtype)
    return [x, weight], linear(x, weight)


def test_what_only_the_caller_or_the_backward_reads_stays_exact() -> None:
    given, y = product()
    model = graph(given, apply("group_norm", y, num_groups=4))
    assert roundings(model, y) == [[]]
    shown = gelu(y)
    assert roundings(graph(given, shown, apply("sin", shown))) == [[]]


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.FLOAT64])
def test_wider_types_lose_nothing(dtype: DType) -> None:
    given, y = product(dtype, columns=384)
    y = gelu(y)
    model = graph(given, apply("group_norm", y, num_groups=2), apply("logsumexp", y, dim=0))
    assert not any(roundings(model))


def test_copies_are_rounded_like_what_is_stored() -> None:
    given, y = product(columns=384)
    active = replace(gelu(y), name="active")
    centred = apply("sub", active, apply("mean", active, dim=1, keepdim=True))
    # What is made of a product by elementwise operations alone is stored in its place, unless
    # something else reads the product, too.
    results = centred, apply("logsumexp", active, dim=0), apply("sin", y)
    first, *others = roundings(graph(given, *results))
    assert first == ["matmul"]
    assert all("active" in names for names in others[:2])


def test_what_goes_separate_ways_stays_exact() -> None:
    given, y = product(columns=384)
    active = gelu(y)
    assert not any(roundings(graph(given, apply("sin", active), apply("logsumexp", active, dim=0))))
