"""Failing programs are reduced to what fails in them."""

from __future__ import annotations

from fusegen.testing.case import Case, Filled
from fusegen.testing.layouts import Layout
from fusegen.testing.reduction import reduced
from fusegen.testing.values import Values

LONG = """model Drawn():
    input x: [n, 8]
    input y: [n, 8]
    first = Linear(8, 8)
    a = first(x) * 2
    b = a |> exp |> softmax(dim=1) |> add(y)
    second = LayerNorm(8)
    c = second(b) - a
    return c, b, amax(a, dim=0)
"""


def test_only_what_fails_is_left() -> None:
    text, case = reduced(
        LONG,
        Case(
            "bfloat16",
            {"n": 129},
            {"x": Filled(Values.HUGE, Layout.CONTIGUOUS, 5), "y": Filled(Values.TINY)},
            7,
        ),
        lambda text, case: "softmax" in text and case.sizes["n"] > 2,
        seconds=60,
    )
    assert text == (
        "model Drawn():\n    input given_0: [n, 8]\n"
        "    output = softmax(given_0, dim=1)\n    return output\n"
    )
    assert case == Case("bfloat16", {"n": 3})


def test_a_module_that_fails_keeps_its_layers() -> None:
    text, _ = reduced(LONG, Case(sizes={"n": 4}), lambda text, _: "linear(" in text, seconds=60)
    assert text == (
        "model Drawn():\n    input x: [n, 8]\n"
        "    first = Linear(in_features=8, out_features=8, bias=True)\n"
        "    output = linear(x, first.weight, first.bias)\n    return output\n"
    )


def test_what_only_fails_in_training_is_reduced_too() -> None:
    dropping = LONG.replace("|> exp |>", "|> dropout(0.3) |> exp |>").replace(
        "(dim=1) |>", "(1) |>"
    )
    text, _ = reduced(dropping, Case(sizes={"n": 4}), lambda t, _: "dropout" in t, seconds=60)
    assert text == (
        "model Drawn():\n    input x: [n, 8]\n    input y: [n, 8]\n"
        "    b = x |> dropout(0.3) |> exp |> softmax(1) |> add(y)\n    return b\n"
    )


def test_sizes_stay_bound() -> None:
    text, _ = reduced(
        "model M():\n    input x: [n]\n    input y: [n, h]\n    return exp(y) / h + sum(x)\n",
        Case(sizes={"n": 4, "h": 2}),
        lambda text, _: " / " in text,
        seconds=60,
    )
    assert "input" in text and " / h" in text and "exp" not in text


def test_what_does_not_fail_when_printed_is_left_as_it_is() -> None:
    case = Case(sizes={"n": 4})
    assert reduced(LONG, case, lambda text, c: (text, c) == (LONG, case), seconds=60) == (
        LONG,
        case,
    )
