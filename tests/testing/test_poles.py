"""Quotients have no bound where errors move the divisor across 0, nor tangents at their poles, and
have one elsewhere."""

from __future__ import annotations

import math

import pytest
import torch

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph
from fusegen.ops.construct import call
from fusegen.ops.pointwise import arithmetic, functions
from fusegen.testing.bounds import SECOND_LOOK, bounds
from fusegen.testing.poles import Crossings
from fusegen.testing.rounding import Precision
from tests.emulated import apply, graph, value

SIZES = {"n": 2}
# In float32 2 ** -24 + 1 - 1 is off by as much as it is, and 3 + 2 - 1 is not.
GIVEN = [torch.tensor([2.0**-24, 3.0]), torch.tensor([1.0, 2.0])]


def quotient(operation: str) -> Graph:
    x, y = value("x", "n"), value("y", "n")
    divisor = apply("sub", apply("add", x, y), 1.0)
    if operation == "reciprocal":
        return graph([x, y], apply("reciprocal", divisor))
    if operation == "pow":
        return graph([x, y], apply("pow", divisor, -1))
    return graph([x, y], apply(operation, y, divisor))


@pytest.mark.parametrize("operation", ["div", "remainder", "reciprocal", "pow"])
def test_a_quotient_by_what_may_be_0_is_lost_at_the_second_look(operation: str) -> None:
    eager = {"div": [1.7e7, 0.5], "remainder": [0.0, 2.0]}.get(operation, [1.7e7, 0.25])
    wrong = torch.tensor([-12345.0, 0.75])
    found = [
        bounds(quotient(operation), GIVEN, [torch.tensor(eager)], SIZES, Precision(), looks)
        for looks in (1, SECOND_LOOK)
    ]
    ((first,), (second,)) = found
    assert first.violations(wrong)[1] and second.violations(wrong).tolist() == [False, True]
    assert first.lost is None and second.lost is not None
    assert second.lost.tolist() == [True, False]


def test_a_power_that_divides_nothing_has_a_bound() -> None:
    x, y = value("x", "n"), value("y", "n")
    cube = graph([x, y], apply("pow", apply("sub", apply("add", x, y), 1.0), 3))
    eager = torch.tensor([0.0, 64.0])
    (limit,) = bounds(cube, GIVEN, [eager], SIZES, Precision(), SECOND_LOOK)
    assert limit.violations(torch.tensor([1.0, 64.0])).tolist() == [True, False]


def test_only_crossings_that_were_on_both_sides_of_0() -> None:
    x, y = value("x", "n"), value("y", "n")
    node = call(arithmetic.DIVIDE, (x, y))
    crossings = Crossings()
    for sample in ([-1.0, 0.0, 2.0, 1.0], [1.0, 0.0, 1.0, 0.0], [2.0, 0.0, 3.0, 2.0]):
        assert crossings.noted()(node, (torch.ones(1), torch.tensor(sample))) is None
    lost = crossings.without_bound()(node, (torch.ones(1), torch.zeros(4)))
    assert lost is not None and lost.tolist() == [True, False, False, False]


def test_a_product_of_an_infinity_is_lost_where_the_other_factor_was_on_both_sides_of_0() -> None:
    node = call(arithmetic.MUL, (value("x", "n"), value("y", "n")))
    crossings, factor = Crossings(), torch.tensor([torch.inf, 1.0, torch.inf, torch.inf])
    for sample in ([-1.0, -1.0, 0.0, 1.0], [1.0, 1.0, 0.0, 0.0]):
        assert crossings.noted()(node, (torch.tensor(sample), factor)) is None
    lost = crossings.without_bound()(node, (torch.zeros(4), factor))
    assert lost is not None and lost.tolist() == [True, False, False, False]


def test_a_power_of_a_negative_number_is_lost_where_errors_may_make_the_exponent_whole() -> None:
    node = call(arithmetic.POWER, (value("x", "n"), value("y", "n")))
    crossings, base = Crossings(), torch.tensor([-2.0, -2.0, -2.0, -2.0, 2.0])
    for sample in ([2.9, 3.0, 3.0, 3.1, 2.9], [3.1, 3.0, 3.2, 3.2, 3.1]):
        assert crossings.noted()(node, (base, torch.tensor(sample))) is None
    lost = crossings.without_bound()(node, (base, torch.full((5,), 3.0)))
    assert lost is not None and lost.tolist() == [True, False, True, False, False]


def test_a_power_of_what_may_be_below_0_is_lost_unless_its_exponent_is_whole() -> None:
    x, y = value("x", "n"), value("y", "n")
    node = call(arithmetic.POWER, (x, y))
    crossings = Crossings()
    exponents = torch.tensor([1.5, 2.0, 1.5])
    for base in ([-1e-40, -1.0, 1e-40], [1e-40, 1.0, 2e-40]):
        crossings.noted()(node, (torch.tensor(base), exponents))
    lost = crossings.without_bound()(node, (torch.ones(3), exponents))
    assert lost is not None and lost.tolist() == [True, False, False]


@pytest.mark.parametrize("operation", ["eq", "ne", "logical_not", "logical_and", "to"])
def test_what_is_true_of_one_number_is_lost_where_errors_take_it_across_that(
    operation: str,
) -> None:
    """2 ** -24 + 1 - 1 may be 0, and 4 may not; what is made of the truth values is lost with
    them."""
    x, y = value("x", "n"), value("y", "n")
    near = apply("sub", apply("add", x, y), 1.0)
    truth = {
        "eq": lambda: apply("eq", near, 0.0),
        "ne": lambda: apply("ne", apply("add", x, y), 1.0),
        "logical_not": lambda: apply("logical_not", near),
        "logical_and": lambda: apply("logical_and", near, y),
        "to": lambda: apply("to", near, dtype=DType.BOOL),
    }[operation]()
    counted = graph([x, y], apply("mul", apply("to", truth, dtype=DType.FLOAT32), 2.0))
    right = torch.tensor([0.0, 0.0] if operation in ("eq", "logical_not") else [2.0, 2.0])
    (limit,) = bounds(counted, GIVEN, [right], SIZES, Precision(), SECOND_LOOK)
    assert limit.violations(2.0 - right).tolist() == [False, True]


def test_a_tangent_is_lost_near_its_poles() -> None:
    """An angle that is spread as far as a sixth of its distance from a pole may lie beyond it."""
    node = call(functions.TAN, (value("x", "n"),))
    pole = math.pi / 2
    crossings = Crossings()
    for spread in (0.0, 0.1):
        angles = [pole - 0.3 - spread, pole - 0.5 - spread, -pole + 7 * math.pi + spread - 0.05]
        crossings.noted()(node, (torch.tensor(angles),))
    lost = crossings.without_bound()(node, (torch.zeros(3),))
    assert lost is not None and lost.tolist() == [False, False, True]
    crossings.noted()(node, (torch.tensor([pole - 0.25, pole - 0.55, 0.0]),))
    lost = crossings.without_bound()(node, (torch.zeros(3),))
    assert lost is not None and lost.tolist() == [True, False, True]
