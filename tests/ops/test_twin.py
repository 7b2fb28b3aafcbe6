"""The text of operations in PyTorch."""

from __future__ import annotations

import math

import pytest

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import AttributeValue, Node, TensorType
from fusegen.ir.integers import Integer
from fusegen.ops.construct import call, constant, size_value
from fusegen.ops.pointwise import arithmetic
from fusegen.ops.record import Record
from fusegen.ops.registry import FUNCTIONS
from fusegen.ops.twin import literal, render
from tests.ops.examples import fixed, placeholder


def node(name: str, *operands: object, **attributes: AttributeValue) -> Node:
    """A call of a function of the language."""
    record = FUNCTIONS[name]
    assert isinstance(record, Record)
    return call(record, operands, **attributes)  # type: ignore[arg-type]


X = placeholder(fixed((2, 6), DType.FLOAT32))
W = placeholder(fixed((6,), DType.FLOAT32))


@pytest.mark.parametrize(
    "made,operands,text",
    [
        (node("group_norm", X, W, num_groups=3), "xw", "F.group_norm(x, 3, w, None)"),
        (
            node("group_norm", X, W, W, num_groups=3, eps=1e-3),
            "xwb",
            "F.group_norm(x, 3, w, b, eps=0.001)",
        ),
        (node("gelu", X), "x", "F.gelu(x)"),
        (node("gelu", X, approximate="tanh"), "x", 'F.gelu(x, approximate="tanh")'),
        (node("amax", X, dim=(0,), keepdim=True), "x", "torch.amax(x, (0,), keepdim=True)"),
        (node("to", X, dtype=DType.BFLOAT16), "x", "x.to(torch.bfloat16)"),
        (node("cat", X, X, dim=1), "xy", "torch.cat([x, y], 1)"),
        (node("mul", X, 0.5), ["x", "0.5"], "x * 0.5"),
        (node("mul", X, -0.5), ["x", "-0.5"], "x * (-0.5)"),
        (node("mul", X, W), ["x + y", "f(w)"], "(x + y) * f(w)"),
        (
            node("maximum", X, 0),
            ["x", "0.0"],
            "torch.maximum(x, torch.tensor(0.0, dtype=torch.float32))",
        ),
        (node("where", node("isnan", X), 0, X), ["c", "0.0", "x"], "torch.where(c, 0.0, x)"),
        (
            node("pow", X, Integer.symbol("n") * 2),
            ["x", "2 * n"],
            "torch.pow(x, 2 * n)",
        ),
        (
            call(arithmetic.DIVIDE, (X, Integer.symbol("n") * 2)),
            ["x", "2 * n"],
            "x / (2 * n)",
        ),
    ],
)
def test_render(made: Node, operands: list[str], text: str) -> None:
    assert render(made, list(operands)) == text


def test_numbers_and_sizes() -> None:
    assert render(constant(0.5, DType.FLOAT16), ()) == "0.5"
    assert render(constant(True, DType.BOOL), ()) == "True"
    assert render(size_value(Integer.symbol("n") - 1), ()) == str(Integer.symbol("n") - 1)


def test_symbolic_shapes() -> None:
    n = Integer.symbol("n")
    x = placeholder(TensorType((n, Integer.of(6)), DType.FLOAT32))
    assert render(node("flatten", x), ("x",)) == "torch.flatten(x, 0, -1)"
    made = node("reshape", x, shape=(n, Integer.of(2), -1))
    assert render(made, ("x",)) == "torch.reshape(x, (n, 2, -1))"


@pytest.mark.parametrize(
    "value,text",
    [
        (math.inf, 'float("inf")'),
        (-math.inf, 'float("-inf")'),
        ((1,), "(1,)"),
        ((), "()"),
        (None, "None"),
        ("same", '"same"'),
        (DType.FLOAT16, "torch.float16"),
    ],
)
def test_literal(value: AttributeValue, text: str) -> None:
    assert literal(value) == text
