"""Exponentials, logarithms, trigonometry and rounding."""

from __future__ import annotations

import math
from collections.abc import Callable

from fusegen.ir.graph import Node
from fusegen.ops import build
from fusegen.ops.inference import Accepts
from fusegen.ops.pointwise.define import unary
from fusegen.ops.record import Gradient, Near, Pointwise


def _sloped(slope: Callable[[Node, Node], Node]) -> Gradient:
    """The gradient times what `slope` makes of the operand and the result."""

    def gradient_of(node: Node, gradient: Node) -> tuple[Node]:
        return (build.mul(gradient, slope(node.operands[0], node)),)

    return gradient_of


def _divided(divisor: Callable[[Node], Node]) -> Gradient:
    """The gradient divided by what `divisor` makes of the operand."""

    def gradient_of(node: Node, gradient: Node) -> tuple[Node]:
        return (build.div(gradient, divisor(node.operands[0])),)

    return gradient_of


def _no_slope(node: Node, gradient: Node) -> tuple[Node]:
    return (build.zeros(node.shape, gradient.dtype),)


def _same(_: Node, gradient: Node) -> tuple[Node]:
    return (gradient,)


def _bell(x: Node) -> Node:
    """The slope of the error function: 2 / sqrt(pi) * exp(-x * x)."""
    return build.mul(build.exp(build.neg(build.square(x))), 2 / math.sqrt(math.pi))


def _transcendental(
    name: str,
    summary: str,
    cost: int = 10,
    device_name: str | None = None,
    near: Near | None = None,
    *,
    gradient: Gradient,
) -> Pointwise:
    return unary(
        name,
        f"fusegen::{device_name or name}({{input}})",
        f"torch.{name}({{input}})",
        summary,
        cost=cost,
        floating=True,
        near=near,
        gradient=gradient,
    )


def _rounding(name: str, summary: str) -> Pointwise:
    return unary(
        name,
        f"fusegen::{name}({{input}})",
        f"torch.{name}({{input}})",
        summary,
        accepts=Accepts.NUMBERS,
        exact=True,
        gradient=_no_slope,
    )


EXP = _transcendental(
    "exp",
    "The exponential.",
    device_name="exponential",
    near=Near("fusegen::near_exp({input})", 3, 1),
    gradient=_sloped(lambda x, y: y),
)
EXP2 = _transcendental(
    "exp2",
    "2 to the power of `input`.",
    gradient=_sloped(lambda x, y: build.mul(y, math.log(2))),
)
EXPM1 = _transcendental(
    "expm1",
    "`exp(input) - 1`, accurate near 0.",
    cost=15,
    gradient=_sloped(lambda x, y: build.add(y, 1)),
)
LOG = _transcendental(
    "log", "The natural logarithm.", device_name="logarithm", gradient=_divided(lambda x: x)
)
LOG1P = _transcendental(
    "log1p",
    "`log(1 + input)`, accurate near 0.",
    cost=15,
    gradient=_divided(lambda x: build.add(x, 1)),
)
LOG2 = _transcendental(
    "log2",
    "The logarithm to base 2.",
    gradient=_divided(lambda x: build.mul(x, math.log(2))),
)
LOG10 = _transcendental(
    "log10",
    "The logarithm to base 10.",
    gradient=_divided(lambda x: build.mul(x, math.log(10))),
)
SIN = _transcendental("sin", "The sine.", cost=20, gradient=_sloped(lambda x, y: build.cosine(x)))
COS = _transcendental(
    "cos",
    "The cosine.",
    cost=20,
    gradient=_sloped(lambda x, y: build.neg(build.sine(x))),
)
TAN = _transcendental(
    "tan",
    "The tangent.",
    cost=30,
    gradient=_sloped(lambda x, y: build.add(build.square(y), 1)),
)
TANH = _transcendental(
    "tanh",
    "The hyperbolic tangent.",
    cost=15,
    near=Near(
        "fusegen::near_tanh({input})", 10, 2, Near("fusegen::multiplied_tanh({input})", 14, 1)
    ),
    gradient=_sloped(lambda x, y: build.sub(1, build.square(y))),
)
ERF = _transcendental(
    "erf", "The error function.", cost=20, gradient=_sloped(lambda x, y: _bell(x))
)

FLOOR = _rounding("floor", "Rounded down.")
CEIL = _rounding("ceil", "Rounded up.")
TRUNC = _rounding("trunc", "Rounded towards zero.")
ROUND = _rounding("round", "Rounded to the nearest integer, halves to even.")

CLONE = unary(
    "clone",
    "{input}",
    "torch.clone({input})",
    "A copy.",
    accepts=Accepts.ANY,
    exact=True,
    gradient=_same,
)

RECORDS = (
    CLONE,
    EXP,
    EXP2,
    EXPM1,
    LOG,
    LOG1P,
    LOG2,
    LOG10,
    SIN,
    COS,
    TAN,
    TANH,
    ERF,
    FLOOR,
    CEIL,
    TRUNC,
    ROUND,
)
