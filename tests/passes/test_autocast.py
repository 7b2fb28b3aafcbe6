"""Casts as autocast makes them, and where they end up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node, Role, topological
from fusegen.ops.autocast import Device
from fusegen.ops.pointwise.casting import CAST
from fusegen.passes.autocast import Autocast, autocast
from fusegen.passes.pipeline import run
from fusegen.plan.module import plan_module
from tests.emulated import apply, graph, value

BFLOAT16 = Autocast(Device.CUDA, DType.BFLOAT16)


def casts(model: Graph) -> list[Node]:
    return [node for node in topological(model.roots) if node.operation is CAST]


def test_a_linear_layer_and_a_softmax() -> None:
    """The product in bfloat16, the softmax in float32, what joins them fused into one kernel."""
    x = value("x", "n", 64)
    weight = value("fc.weight", 32, 64, role=Role.PARAMETER)
    bias = value("fc.bias", 32, role=Role.PARAMETER)
    model = autocast(
        graph([x], apply("softmax", apply("linear", x, weight, bias), dim=1)), BFLOAT16
    )
    softmax = model.outputs[0].node
    (wide,) = softmax.operands
    (linear,) = wide.operands
    assert (softmax.dtype, wide.operation, linear.dtype) == (DType.FLOAT32, CAST, DType.BFLOAT16)
    assert [x.name for x in linear.operands] == [
        "x_bfloat16",
        "fc.weight_bfloat16",
        "fc.bias_bfloat16",
    ]
    plan = plan_module(run(replace(model, tensors=(weight, bias))), DType.FLOAT32)
    stored = [buffer.name for step in plan.steps for buffer in step.written]
    assert stored[:2] == ["x_bfloat16", "fc_weight_bfloat16"]  # what a product reads
    assert "fc_bias_bfloat16" not in stored and len(plan.steps) <= 4


def test_inputs_may_arrive_in_the_dtype() -> None:
    x, y = value("x", 4), value("y", 4)
    model = autocast(
        graph([x, y], apply("mul", x, y), apply("relu", x)),
        Autocast(Device.CUDA, DType.FLOAT16, low=(0,)),
    )
    assert [node.dtype for node in model.inputs] == [DType.FLOAT16, DType.FLOAT32]
    assert [node.dtype for node in model.roots] == [DType.FLOAT32, DType.FLOAT16]
    assert not casts(model)


@pytest.mark.parametrize("device", Device)
def test_float64_and_integers_stay(device: Device) -> None:
    x, i = value("x", 4, 4, dtype=DType.FLOAT64), value("i", 4, 4, dtype=DType.INT64)
    model = graph([x, i], apply("matmul", x, x), apply("exp", x), apply("add", i, 1))
    assert autocast(model, Autocast(device, DType.BFLOAT16)).roots == model.roots


def test_a_dtype_that_the_user_chose_is_kept() -> None:
    x = value("x", 4)
    low = Autocast(Device.CUDA, DType.BFLOAT16, low=(0,))
    model = autocast(graph([x], apply("softmax", x, dim=0, dtype=DType.FLOAT16)), low)
    assert model.roots[0].dtype is DType.FLOAT16 and not casts(model)


def test_names() -> None:
    assert BFLOAT16.name == "autocast_bfloat16"
    assert Autocast(Device.CPU, DType.FLOAT16, (0, 2)).name == "autocast_float16_in0_2"
