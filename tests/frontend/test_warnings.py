"""What is allowed but likely a mistake."""

from __future__ import annotations

import pytest

from tests.frontend.programs import errors, model, warnings

HINT = "remove it, or start its name with '_' to keep it"


@pytest.mark.parametrize(
    ("body", "after", "expected"),
    [
        ("y = relu(x)\nreturn x * n", "", (3, 5, 6, "value 'y' is never used", HINT)),
        ("fc = Linear(n, n)\nreturn x", "", (3, 5, 7, "value 'fc' is never used", HINT)),
        ("input y: [b]\nreturn x * n", "", (3, 11, 12, "input 'y' is never used", HINT)),
        ("return x", "", (1, 9, 10, "argument 'n' is never used", HINT)),
        ("return f(x) * n", "fn f(t, u=2) = t", (4, 9, 10, "argument 'u' is never used", HINT)),
    ],
)
def test_unused(body: str, after: str, expected: tuple[int, int, int, str, str]) -> None:
    text = model("input x: [b, 8]\n" + body, after=after)
    assert errors(text) == []
    assert warnings(text) == [expected]


def test_names_with_an_underscore_may_be_unused() -> None:
    text = model("input x: [b, n]\ninput _y: [b]\n_, _ = chunk(x, 2, 1)\n_z = x\nreturn x")
    assert warnings(text) == []


def test_a_size_that_looks_like_an_argument() -> None:
    header = "model M(in_features=8):"
    text = model("input x: [b, in_feature]\nreturn x * in_features", header)
    assert warnings(text) == [
        (
            *(2, 18, 28),
            "'in_feature' is a size known only at run time, not the argument 'in_features'",
            "write 'in_features' if you mean the argument",
        )
    ]


def test_warnings_come_with_the_errors() -> None:
    text = model("input x: [b, n]\ny = x\nreturn relu(z)")
    assert [finding[3] for finding in errors(text)] == ["'z' is not known here"]
