"""Reductions of rows that lie beside each other in memory, of any fixed number of columns."""

from __future__ import annotations

import pytest
import torch

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph
from fusegen.plan.kernels.rows import RowMapping, RowPlan
from tests.emulated import apply, build, graph, value
from tests.ops.examples import torch_dtype


def normal(*shape: int, dtype: DType) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(torch_dtype(dtype))


def over_columns(columns: int, rows: int, dtype: DType) -> Graph:
    x = value("x", columns, rows, dtype=dtype)
    return graph([x], apply("logsumexp", x, dim=0), apply("var", x, dim=0))


# Rows by which a thread takes one, two or more of them together, and few columns or many.
CASES = [
    (columns, rows, dtype)
    for columns in (2, 5, 6, 7, 13, 40)
    for rows, dtype in ((257, DType.FLOAT32), (258, DType.BFLOAT16), (130, DType.FLOAT64))
]


def test_every_number_of_columns() -> None:
    made = build([over_columns(*case) for case in CASES], check=True)
    for kernels, (columns, rows, dtype) in zip(made, CASES, strict=True):
        plans = [step for step in kernels.plan.steps if isinstance(step, RowPlan)]
        assert all(form.mapping is RowMapping.OUTER for step in plans for form in step.forms)
        x = normal(columns, rows, dtype=dtype)
        powers, variances = kernels(x, seed=1, check=True)
        unit = torch.finfo(torch_dtype(dtype)).eps
        # Sums of at most 40 positive terms, each exponential and logarithm within two units.
        allowed = 64 * max(torch.finfo(torch.float64).eps, min(unit, 2.0**-23)) + unit
        for found, exact in (
            (powers, torch.logsumexp(x.double(), 0)),
            (variances, x.double().var(0)),
        ):
            torch.testing.assert_close(found.double(), exact, rtol=allowed, atol=allowed)


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16])
def test_several_kinds_of_states_share_the_memory_of_a_block(dtype: DType) -> None:
    """Each kind has an exchange of its own, and all of them no more than a block may declare."""
    x = value("x", "n", 512, dtype=dtype)
    names = ("var", "amax", "amin", "sum", "logsumexp")
    model = graph([x], *(apply(name, x, dim=0) for name in names))
    (made,) = build([model], check=True, hints={"n": 64})
    given = normal(37, 512, dtype=dtype)
    exact = given.double()
    expected = (
        *(exact.var(0), exact.amax(0), exact.amin(0), exact.sum(0)),
        exact.logsumexp(0),
    )
    # A sum of 37 terms below 5 that cancel, each addition within half a unit of float32.
    allowed = 37 * 5 * 37 * 2.0**-24 + 8 * torch.finfo(torch_dtype(dtype)).eps
    for found, right in zip(made(given, seed=2, check=True), expected, strict=True):
        torch.testing.assert_close(found.double(), right, rtol=allowed, atol=allowed)


def test_standardised_and_softmax_over_channels() -> None:
    x = value("x", 2, "n", 256, dtype=DType.BFLOAT16)
    centred = apply("sub", x, apply("mean", x, dim=1, keepdim=True))
    scaled = apply("div", centred, apply("std", x, dim=1, keepdim=True))
    model = graph([x], apply("softmax", scaled, dim=1))
    (made,) = build([model], check=True, hints={"n": 1024})
    given = normal(2, 21, 256, dtype=DType.BFLOAT16)
    exact = given.double()
    scaled_exact = (exact - exact.mean(1, keepdim=True)) / exact.std(1, keepdim=True)
    (found,) = made(given, check=True)
    unit = torch.finfo(torch.bfloat16).eps
    right = torch.softmax(scaled_exact, 1)
    # The deviation, or what it divides, may stand in memory in between: half a unit of an exponent
    # each, in the element and in the sum it is divided by. The result is rounded by another half.
    allowed = 2 * float(scaled_exact.abs().max()) * unit + unit
    torch.testing.assert_close(found.double(), right, rtol=allowed, atol=0)
