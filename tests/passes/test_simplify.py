"""Cheaper ways to say the same: each rule with the special values it must keep."""

from __future__ import annotations

import pytest
import torch

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Node, Role, topological
from fusegen.ops import build
from fusegen.passes.common_values import share_common_values
from fusegen.passes.decompose import decompose
from fusegen.passes.simplify import simplify
from tests.emulated import apply, graph, value
from tests.reference import evaluate

SPECIAL = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-45, -1.5, 3e38])


def simplified(root: Node, *inputs: Node) -> Node:
    (result,) = simplify(share_common_values(decompose(graph(inputs, root)))).roots
    return result


def operations(root: Node) -> list[str]:
    return [n.operation.name for n in topological((root,)) if n.operands]


X = value("x", 8)


@pytest.mark.parametrize(
    ("root", "left"),
    [
        pytest.param(apply("add", X, X), ["mul"], id="x + x is x * 2"),
        pytest.param(apply("mul", X, 1), [], id="x * 1"),
        pytest.param(apply("div", X, 1), [], id="x / 1"),
        pytest.param(apply("sub", X, 0), [], id="x - 0"),
        pytest.param(apply("add", X, 0), ["add"], id="x + 0 makes -0 into 0"),
        pytest.param(apply("sub", X, -0.0), ["sub"], id="x - -0.0 makes -0 into 0"),
        pytest.param(apply("mul", X, 0), ["mul"], id="x * 0 keeps NaN"),
        pytest.param(apply("sub", X, X), ["sub"], id="x - x keeps NaN"),
        pytest.param(apply("div", X, X), ["div"], id="x / x keeps NaN"),
        pytest.param(apply("pow", X, 2), ["square"], id="x ** 2"),
        pytest.param(apply("to", X, dtype=DType.FLOAT32), [], id="a cast to the same dtype"),
        pytest.param(
            apply("to", apply("to", X, dtype=DType.FLOAT16), dtype=DType.FLOAT32),
            ["to", "to"],
            id="a rounding cast",
        ),
    ],
)
def test_rules_keep_every_bit(root: Node, left: list[str]) -> None:
    result = simplified(root, X)
    assert operations(result) == left
    (before,) = evaluate((root,), {X: SPECIAL})
    (after,) = evaluate((result,), {X: SPECIAL})
    bits = [
        t.nan_to_num(7.25, float("inf"), -float("inf")).view(torch.int32) for t in (before, after)
    ]
    assert torch.equal(*bits)


def test_a_zero_is_known_in_every_dtype() -> None:
    """No kernel has to store it; other numbers are converted, which rounds them."""
    zero = build.zeros((8,), DType.BFLOAT16)
    assert operations(simplified(zero)) == ["expand"]
    assert simplified(zero).dtype is DType.BFLOAT16
    third = apply("to", build.constant(1 / 3, DType.FLOAT32), dtype=DType.BFLOAT16)
    assert operations(simplified(third)) == ["to"]


def test_a_product_of_truth_values_is_a_conjunction() -> None:
    a, b = (value(name, 4, dtype=DType.BOOL) for name in "ab")
    assert operations(simplified(apply("mul", a, b), a, b)) == ["logical_and"]


def test_a_power_of_truth_values_stays_one() -> None:
    truth = value("t", 8, dtype=DType.BOOL)
    root = apply("pow", truth, 2)
    assert operations(simplified(root, truth)) == ["power"]


def test_two_biases_are_added_first() -> None:
    x = value("x", 3, 8)
    first, second = (value(name, 8, role=Role.PARAMETER) for name in ("first", "second"))
    result = simplified(apply("add", apply("add", x, first), second), x, first, second)
    assert result.operands[0] is x and result.operands[1].operands == (first, second)


@pytest.mark.parametrize("role", [Role.INPUT, Role.PARAMETER])
def test_only_small_parameters_are_added_first(role: Role) -> None:
    x, first = value("x", 8), value("first", 8, role=Role.PARAMETER)
    second = value("second", 8, role=role)
    result = simplified(apply("add", apply("add", x, first), second), x, first, second)
    assert result.operands[0].operands == (x, first)
