"""Rows by numbers of warps that are no power of two: the last exchange has places left over."""

from __future__ import annotations

import pytest
import torch

from fusegen.ir.graph import Graph
from fusegen.plan.kernels.rows import RowMapping, RowPlan
from tests.emulated import apply, graph, link, planned, value
from tests.reference import evaluate

# Of float32 nine warps have four vectors each, and no power of two of them as many.
WIDTH = 4608


def norm() -> Graph:
    x = value("x", "n", WIDTH)
    return graph([x], apply("layer_norm", x, normalized_shape=(WIDTH,)))


def softmax() -> Graph:
    x = value("x", "n", WIDTH)
    return graph([x], apply("softmax", x, dim=1))


def extremes() -> Graph:
    """Greatest and least, where the greatest is, all and any: states of every kind."""
    x = value("x", "n", WIDTH)
    results = (
        apply("amax", x, dim=1),
        apply("amin", x, dim=1),
        apply("argmax", x, dim=1),
        apply("all", apply("lt", x, 9.0), dim=1),
        apply("any", apply("gt", x, 9.0), dim=1),
        apply("sum", x, dim=1),
        apply("softmax", x, dim=1),  # so that rows are kept
    )
    return graph([x], *results)


@pytest.mark.parametrize("model", [norm(), softmax(), extremes()], ids=["norm", "softmax", "all"])
def test_nine_warps_share_a_row(model: Graph) -> None:
    plan = planned(model)
    for step in plan.steps:
        assert isinstance(step, RowPlan)
        assert (step.forms[0].mapping, step.forms[0].lanes) == (RowMapping.BLOCK, 288)
    generator = torch.Generator().manual_seed(5)
    x = torch.randn((5, WIDTH), generator=generator)
    x[0] = -x[0].abs()  # no element is as great as what an empty place holds
    x[1] = x[1].abs() + 1
    x[2, -1] = 10.0
    x[3] = -torch.inf
    x[4, 700] = torch.nan
    actual = link([plan], check=True)[0](x, check=True)
    expected = evaluate(model.roots, {model.inputs[0]: x.double()}, {"n": 5})
    for own, wanted in zip(actual, expected, strict=True):
        if own.dtype is torch.float32:
            # Norms and powers of numbers below 5, by float32's sums of 4608: 1e-5 of the greatest.
            torch.testing.assert_close(own.double(), wanted, rtol=1e-5, atol=1e-5, equal_nan=True)
        else:
            assert torch.equal(own, wanted.to(own.dtype))
