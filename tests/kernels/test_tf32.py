"""float32 products whose operands are rounded to TF32.

Operands that TF32 has exactly make the result as good as float32's, and others give the same as
their rounded values: so both are tested, without a tolerance that hides what TF32 loses.
"""

from __future__ import annotations

import functools

import pytest
import torch

from fusegen.ir.dtypes import DType
from fusegen.plan.kernels.product import ProductPlan
from fusegen.plan.precision import Precision
from tests.emulated import Kernels, apply, cuda_text, graph, link, planned, value
from tests.kernels.families import Case, gelu, grouped_linear, linear, row_sums
from tests.kernels.test_families import check_accuracy

# Each has more rows than the form for few of them takes, and lines that begin at multiples of 16
# bytes.
CASES = {
    "activation": Case(((70, 36), (66, 36), (66,)), lambda x, w, b: gelu(linear(x, w, b))),
    "any rows": Case((("m", 20), (10, 20)), linear, {"m": 67}),
    "batches, transposed": Case(
        ((2, 3, 20, 8), (2, 3, 12, 8)),
        lambda x, y: apply("matmul", x, apply("transpose", y, dim0=2, dim1=3)),
    ),
    "a matrix for all batches": Case(
        (("b", 65, 8), (1, 24, 8)),
        lambda x, y: apply("matmul", x, apply("transpose", y, dim0=1, dim1=2)),
        {"b": 3},
    ),
    "groups of 16": grouped_linear(65, 20, 160, 10),
    "row sums": row_sums(66, 16, 300),
}
DROPPED_BITS = 13


def as_tf32(x: torch.Tensor) -> torch.Tensor:
    """The nearest values that TF32 has."""
    half = 1 << (DROPPED_BITS - 1)
    return ((x.view(torch.int32) + half) >> DROPPED_BITS << DROPPED_BITS).view(torch.float32)


@functools.cache
def kernels() -> dict[str, Kernels]:
    graphs = [case.graph(DType.FLOAT32) for case in CASES.values()]
    plans = [planned(made, None, Precision.HIGH) for made in graphs]
    return dict(zip(CASES, link(plans, check=True), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_exact_operands_under_every_order_of_threads(name: str) -> None:
    case, compiled = CASES[name], kernels()[name]
    tensors = [as_tf32(x) for x in case.tensors(DType.FLOAT32)]
    first = compiled(*tensors, check=True)
    check_accuracy(case, DType.FLOAT32, tensors, first)
    for seed in range(1, 4):
        again = compiled(*tensors, seed=seed, check=True)
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True)), f"seed {seed}"
    # Other operands give what their rounded values give: no other form was taken.
    finer = [x if x.dim() == 1 else x * (1 + 2.0**-13) for x in tensors]
    assert all(torch.equal(a, b) for a, b in zip(first, compiled(*finer), strict=True))


def test_operands_are_rounded_to_the_nearest() -> None:
    x, w = value("x", 20, 64), value("w", 16, 64)
    (compiled,) = link([planned(graph([x, w], linear(x, w)), None, Precision.HIGH)], check=True)
    generator = torch.Generator().manual_seed(1)
    tensors = [torch.randn(shape, generator=generator) for shape in ((20, 64), (16, 64))]
    assert torch.equal(compiled(*tensors)[0], compiled(*map(as_tf32, tensors))[0])


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16, DType.FLOAT64])
def test_products_of_other_dtypes_are_planned_as_ever(dtype: DType) -> None:
    x, w = value("x", "n", 64, dtype=dtype), value("w", 16, 64, dtype=dtype)
    made = graph([x, w], linear(x, w))
    assert cuda_text(planned(made, None, Precision.HIGH)) == cuda_text(planned(made))


def test_float32_products_take_tf32_where_it_is_allowed() -> None:
    x, w = value("x", "n", 64), value("w", 16, 64)
    (step,) = planned(graph([x, w], linear(x, w)), None, Precision.HIGH).steps
    assert isinstance(step, ProductPlan) and step.tensor_cores is not None
    assert step.tensor_cores.depth == 32 and step.cost.tf32_flops == 2 * 1024 * 64 * 16
    assert "TF32" in step.why
