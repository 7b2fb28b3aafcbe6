"""What stands in for PyTorch's operations is them, but where they are inexact or vary."""

from __future__ import annotations

from math import inf

import pytest
import torch

from fusegen.ir.dtypes import DType
from fusegen.testing.stand_ins import stand_in
from tests.emulated import apply, value

ROWS = [[2.0, 3.0, 4.0], [0.0, 3.0, 4.0], [0.0, 0.0, 4.0], [0.0, inf, 4.0], [inf, 3.0, 4.0]]


@pytest.mark.parametrize("rows", [ROWS, *([row] for row in ROWS)])
def test_the_product_of_a_row_has_the_gradient_that_it_has_alone(rows: list[list[float]]) -> None:
    x = torch.tensor(rows, dtype=torch.float64)
    node = apply("prod", value("x", *x.shape, dtype=DType.FLOAT64), dim=-1, keepdim=False)
    leaf = x.clone().requires_grad_()
    made = stand_in(node, (leaf,), {})
    assert made is not None
    (gradient,) = torch.autograd.grad(made.sum(), leaf)
    for row, value_of, slope in zip(x, made, gradient, strict=True):
        alone = row.clone().requires_grad_()
        expected = torch.prod(alone, dim=-1)
        torch.testing.assert_close(value_of, expected, equal_nan=True)
        torch.testing.assert_close(
            slope, torch.autograd.grad(expected, alone)[0], equal_nan=True, rtol=0.0, atol=0.0
        )
