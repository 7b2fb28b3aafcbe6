"""Truth values beside numbers take part in arithmetic as 0 and 1."""

from __future__ import annotations

import pytest
import torch

from fusegen.ir.dtypes import DType
from tests.emulated import apply, graph, run, value

FUNCTIONS = ("maximum", "minimum", "add", "mul", "eq", "lt")


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16, DType.INT64])
def test_a_truth_value_and_a_number(dtype: DType) -> None:
    m, x = value("m", "n", 5, dtype=DType.BOOL), value("x", "n", 5, dtype=dtype)
    results = [apply(name, m, x) for name in FUNCTIONS]
    torch.manual_seed(0)
    mask = torch.rand(7, 5) > 0.5
    numbers = (torch.randn(7, 5) * 2).to(getattr(torch, dtype.value))
    found = run(graph([m, x], *results, apply("where", m, x, m)), [mask, numbers], check=True)
    wanted = [getattr(torch, name)(mask, numbers) for name in FUNCTIONS]
    for actual, expected in zip(found, [*wanted, torch.where(mask, numbers, mask)], strict=True):
        assert actual.dtype is expected.dtype
        assert torch.equal(actual, expected)
