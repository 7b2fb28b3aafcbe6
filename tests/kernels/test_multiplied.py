"""Kernels that multiply reciprocals out, on every number of 16 bits."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Node
from fusegen.plan.expressions import Compute, walk
from fusegen.plan.kernels.elementwise import ElementwisePlan
from fusegen.plan.kernels.module import ModulePlan
from tests.emulated import apply, graph, link, planned, value
from tests.ops.test_multiplied import NAMES, exact
from tests.plan.test_special_functions import ten

DTYPES = {DType.FLOAT16: torch.float16, DType.BFLOAT16: torch.bfloat16}


def forced(plan: ModulePlan) -> ModulePlan:
    """The plan with every reciprocal multiplied out that can be."""
    (step,) = plan.steps
    assert isinstance(step, ElementwisePlan)
    able = frozenset(
        value
        for value in walk(step.values)
        if isinstance(value, Compute) and value.operation.near and value.operation.near.multiplied
    )
    assert able
    return replace(plan, steps=(replace(step, multiplied=able),))


def every(dtype: torch.dtype) -> torch.Tensor:
    return torch.arange(-(1 << 15), 1 << 15).to(torch.int16).view(dtype)


def assert_rounded(result: torch.Tensor, expected: torch.Tensor) -> None:
    """Half a unit in the last place, or of the least number, and what the functions err: 2^-15 and
    as much as the relative error of exp(104) is more."""
    rounded = expected.to(result.dtype)
    regular = rounded.isfinite()
    torch.testing.assert_close(result[~regular], rounded[~regular], rtol=0, atol=0, equal_nan=True)
    info = torch.finfo(result.dtype)
    error = (result.double() - expected)[regular].abs()
    relative = (expected.abs() * (info.eps / 2 + 2.0**-14.5))[regular]
    assert (error <= relative + info.smallest_normal * info.eps * 0.51).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_number(dtype: DType) -> None:
    x = every(DTYPES[dtype])
    node = value("x", "n", dtype=dtype)
    models = [graph([node], apply(name, node)) for name in NAMES]
    for name, kernels in zip(NAMES, link([forced(planned(m)) for m in models]), strict=True):
        (result,) = kernels(x)
        expected = exact(name, x.double())
        if name in ("silu", "mish"):
            expected[x == float("-inf")] = float("nan")  # as eager
        assert_rounded(result, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_ten_operations_as_planned_and_all_multiplied_out(dtype: DType) -> None:
    node: Node = value("x", "n", dtype=dtype)
    plan = planned(graph([node], ten(node)))
    x = every(DTYPES[dtype])
    x = x[x.isfinite() & (x.abs() < 100)]
    wide = x.double()
    inner = (torch.tanh(torch.sigmoid(2 * wide + 1) * wide) - 0.5).relu()
    expected = exact("silu", inner.square() + wide)
    for kernels in link([plan, forced(plan)]):
        (result,) = kernels(x)
        info = torch.finfo(result.dtype)
        error = (result.double() - expected).abs()
        # What is subtracted leaves an absolute error of the functions', which its square doubles.
        assert (error <= expected.abs() * (info.eps / 2 + 2.0**-14) + 2.0**-25).all()


def test_equal_inputs_give_equal_results_wherever_they_stand() -> None:
    node = value("x", "n", dtype=DType.BFLOAT16)
    (kernels,) = link([planned(graph([node], ten(node)))])
    x = torch.randn(1, generator=torch.Generator().manual_seed(3)).bfloat16().expand(4099)
    (result,) = kernels(x.contiguous())
    assert (result == result[0]).all()
