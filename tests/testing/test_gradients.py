"""Whether the graph of a backward is the derivative, for given formulas."""

from __future__ import annotations

import pytest

from fusegen.frontend import Source
from fusegen.ir.dtypes import DType
from fusegen.testing import Subject
from fusegen.testing.case import Case
from fusegen.testing.gradients import formula_bounds


def subject(formula: str) -> Subject:
    text = f"model Formula():\n    input x: [n, 16]\n    return {formula}\n"
    return Subject.of(Source("formula.fuse", text), target="emulate")


@pytest.mark.parametrize(
    ("derived", "is_right"),
    [("sin(x) * x", True), ("sin(x) * x * 1.000001", False), ("x * sin(x + 1e-6)", False)],
)
def test_a_formula_that_is_nearly_right_is_wrong(derived: str, is_right: bool) -> None:
    """The derivative of a model beside one of another that is off by 10^-6."""
    model, other = subject("x * sin(x)"), subject(derived)
    case = Case("float32", {"n": 3})
    tensors = case.draw(model)
    upstream = case.draw_gradients(model, model.reference(tensors))
    in_float64, in_float32 = map(other.derivative, (DType.FLOAT64, DType.FLOAT32))
    graph = model.graph(DType.FLOAT64)
    found = formula_bounds(graph, in_float64, in_float32, tensors, upstream, case.sizes)
    ((bound, value),) = found.values()
    assert bool(bound.violations(value).any()) is not is_right
