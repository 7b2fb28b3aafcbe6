"""What row kernels compute by other means than the operation says: the same values all the same."""

from __future__ import annotations

import pytest
import torch

from fusegen.ir.dtypes import DType
from fusegen.plan.kernels.rows import RowPlan
from tests.emulated import Kernels, apply, cuda_text, graph, link, planned, value

WIDTH = 64


@pytest.fixture(scope="module")
def shares() -> Kernels:
    """Each row divided by its greatest element."""
    x = value("x", "n", WIDTH)
    return link([planned(graph([x], apply("div", x, apply("amax", x, dim=1, keepdim=True))))])[0]


@pytest.mark.parametrize("exponent", [-60, -30, -3, 0, 5, 60, 110])
def test_a_row_over_its_number_is_rounded_as_a_division_is(shares: Kernels, exponent: int) -> None:
    generator = torch.Generator().manual_seed(exponent)
    x = torch.randn((50, WIDTH), generator=generator) * 2.0**exponent
    (y,) = shares(x)
    assert torch.equal(y, x / x.amax(dim=1, keepdim=True))


def test_a_row_over_zero_infinity_or_a_subnormal(shares: Kernels) -> None:
    x = -torch.rand((7, WIDTH), generator=torch.Generator().manual_seed(0))
    for row, greatest in enumerate((0.0, float("inf"), float("nan"), 1e-44, 3e38, 1e-38)):
        x[row, row] = greatest
    x[3] *= 1e37  # over a subnormal: beyond what float32 holds
    x[3, 3] = 1e-44
    x[6] = -float("inf")
    (y,) = shares(x)
    torch.testing.assert_close(y, x / x.amax(dim=1, keepdim=True), rtol=0, atol=0, equal_nan=True)


def test_moments_taken_a_vector_at_a_time_are_as_good_as_two_passes() -> None:
    """Far from zero, and of equal elements, in one pass shared by many blocks."""
    x = value("x", 1 << 18)
    plan = planned(graph([x], apply("var", x, correction=0), apply("mean", x)), {})
    assert any(isinstance(step, RowPlan) and step.parts > 1 for step in plan.steps)
    (kernels,) = link([plan])
    noise = torch.randn(1 << 18, generator=torch.Generator().manual_seed(0))
    far = 1e4 + 0.01 * noise
    variance, mean = kernels(far)
    exact = far.double()
    # Distances from the first element are exact, so that what is left is float32's own rounding of
    # at most some dozens of merges of the mean, times as many units.
    assert abs(float(variance) / float(exact.var(correction=0)) - 1) < 100 * 2**-24
    assert abs(float(mean) / float(exact.mean()) - 1) < 2**-23
    variance, mean = kernels(torch.full((1 << 18,), 0.1))
    assert float(variance) == 0.0 and float(mean) == float(torch.tensor(0.1))


def test_rows_of_half_vectors_are_wide() -> None:
    """12 columns of 16 bits, known at run time only: vectors of 4 where 8 do not fit."""
    x = value("x", "n", "width", dtype=DType.BFLOAT16)
    plan = planned(graph([x], apply("sum", x, dim=1)))
    assert "half_wide" in cuda_text(plan)
    (kernels,) = link([plan], check=True)
    for width in (8, 12, 13):
        given = torch.arange(3 * width).reshape(3, width).to(torch.bfloat16)
        (found,) = kernels(given, check=True)
        assert torch.equal(found, given.float().sum(1).to(torch.bfloat16))
