"""Small programs that random models led to, each of which the compiler once got wrong."""

from __future__ import annotations

import pytest

from fusegen.testing.case import Case, Filled
from fusegen.testing.fuzzing import failure_of
from fusegen.testing.values import Values

FOUND = {
    # A kernel that reads no strides prepared divisions by a size that it was not given.
    "one column of a stored image": (
        "input x: [n, 6, h, 5]\n    y = exp(x)\n    return y[..., 0], y",
        Case("float32", {"n": 2, "h": 3}),
    ),
    # What underflows in exp was lost before it was multiplied by the input.
    "the left tail of mish": (
        "input x: [n, 16]\n    return mish(x)",
        Case("bfloat16", {"n": 16}, {"x": Filled(Values.WIDE, seed=207940)}),
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_found(name: str) -> None:
    body, case = FOUND[name]
    failure = failure_of(f"model Drawn():\n    {body}\n", case, "emulate")
    assert failure is None, str(failure)
