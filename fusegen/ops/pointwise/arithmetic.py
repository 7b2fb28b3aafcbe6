"""Arithmetic on one or two tensors."""

from __future__ import annotations

from collections.abc import Callable

from fusegen.ir.graph import Node
from fusegen.ops import build
from fusegen.ops.inference import Accepts
from fusegen.ops.pointwise.define import binary, unary
from fusegen.ops.record import Gradient, Near

Gradients = tuple[Node | None, ...]


def _add(_: Node, gradient: Node) -> Gradients:
    return gradient, gradient


def _sub(_: Node, gradient: Node) -> Gradients:
    return gradient, build.neg(gradient)


def _mul(node: Node, gradient: Node) -> Gradients:
    x, y = node.operands
    return build.mul(gradient, y), build.mul(gradient, x)


def _divide(node: Node, gradient: Node) -> Gradients:
    _, y = node.operands
    return build.div(gradient, y), build.neg(build.mul(gradient, build.div(node, y)))


def _no_slope(node: Node, gradient: Node) -> Gradients:
    return tuple(build.zeros(node.shape, gradient.dtype) for _ in node.operands)


def _remainder(node: Node, gradient: Node) -> Gradients:
    x, y = node.operands
    whole = build.call(FLOOR_DIVIDE, (x, y))
    return gradient, build.neg(build.mul(gradient, whole))


def _power(node: Node, gradient: Node) -> Gradients:
    """The base's is 0 where the exponent is, and the exponent's where 0 is raised to 0 or more."""
    base, exponent = node.operands
    slope = build.mul(exponent, build.power(base, build.sub(exponent, 1)))
    logarithm = build.mul(node, build.log(base))
    vanishes = build.both(build.eq(base, 0), build.ge(exponent, 0))
    return (
        build.where(build.eq(exponent, 0), 0, build.mul(gradient, slope)),
        build.mul(gradient, build.where(vanishes, 0, logarithm)),
    )


def _extreme(loses: Callable[[Node, Node], Node]) -> Gradient:
    """Half to each of equals; NaN, which is neither, to both."""

    def gradient_of(node: Node, gradient: Node) -> Gradients:
        x, y = node.operands
        shared = build.where(build.eq(x, y), build.mul(gradient, 0.5), gradient)
        return build.where(loses(x, y), 0, shared), build.where(loses(y, x), 0, shared)

    return gradient_of


def _neg(_: Node, gradient: Node) -> Gradients:
    return (build.neg(gradient),)


def _absolute(node: Node, gradient: Node) -> Gradients:
    return (build.mul(gradient, build.sign(node.operands[0])),)


def _square(node: Node, gradient: Node) -> Gradients:
    return (build.mul(gradient, build.mul(node.operands[0], 2)),)


def _sqrt(node: Node, gradient: Node) -> Gradients:
    return (build.div(gradient, build.mul(node, 2)),)


def _rsqrt(node: Node, gradient: Node) -> Gradients:
    return (build.mul(build.mul(gradient, -0.5), build.mul(build.square(node), node)),)


def _reciprocal(node: Node, gradient: Node) -> Gradients:
    return (build.neg(build.mul(gradient, build.square(node))),)


ADD = binary(
    "add",
    "{input} + {other}",
    "{input:operand} + {other:operand}",
    "The sum, elementwise.",
    gradient=_add,
)
SUB = binary(
    "sub",
    "{input} - {other}",
    "{input:operand} - {other:operand}",
    "The difference, elementwise.",
    accepts=Accepts.NUMBERS,
    gradient=_sub,
)
MUL = binary(
    "mul",
    "{input} * {other}",
    "{input:operand} * {other:operand}",
    "The product, elementwise.",
    gradient=_mul,
)
DIVIDE = binary(
    "div",
    "{input} / {other}",
    "{input:operand} / {other:operand}",
    "The quotient, elementwise; that of integers is floating-point.",
    cost=8,
    floating=True,
    near=Near("fusegen::near_quotient({input}, {other})", 8, 1),
    gradient=_divide,
)
FLOOR_DIVIDE = binary(
    "floor_divide",
    "fusegen::floor_divide({input}, {other})",
    "{input:operand} // {other:operand}",
    "The quotient rounded down, elementwise.",
    cost=16,
    accepts=Accepts.NUMBERS,  # and no gradient: PyTorch refuses to differentiate it
)
TRUNCATE_DIVIDE = binary(
    "truncate_divide",
    "fusegen::truncate_divide({input}, {other})",
    'torch.div({input:number}, {other:number}, rounding_mode="trunc")',
    "The quotient rounded towards zero, elementwise.",
    cost=10,
    accepts=Accepts.NUMBERS,
    gradient=_no_slope,
)
REMAINDER = binary(
    "remainder",
    "fusegen::remainder({input}, {other})",
    "{input:operand} % {other:operand}",
    "The remainder with the divisor's sign, elementwise.",
    cost=20,
    accepts=Accepts.NUMBERS,
    gradient=_remainder,
)
POWER = binary(
    "power",
    "fusegen::power({input}, {other})",
    "{input:operand} ** {other:operand}",
    "`input` to the power of `other`, elementwise.",
    cost=40,
    accepts=Accepts.NUMBERS,
    gradient=_power,
)
MINIMUM = binary(
    "minimum",
    "fusegen::minimum({input}, {other})",
    "torch.minimum({input}, {other})",
    "The lesser, elementwise; NaN if either is.",
    cost=2,
    exact=True,
    gradient=_extreme(lambda x, y: build.gt(x, y)),
)
MAXIMUM = binary(
    "maximum",
    "fusegen::maximum({input}, {other})",
    "torch.maximum({input}, {other})",
    "The greater, elementwise; NaN if either is.",
    cost=2,
    exact=True,
    gradient=_extreme(lambda x, y: build.lt(x, y)),
)

NEG = unary(
    "neg",
    "-{input}",
    "-{input:operand}",
    "The negative.",
    accepts=Accepts.NUMBERS,
    exact=True,
    gradient=_neg,
)
ABS = unary(
    "abs",
    "fusegen::absolute({input})",
    "torch.abs({input})",
    "The absolute value.",
    accepts=Accepts.NUMBERS,
    exact=True,
    gradient=_absolute,
)
SIGN = unary(
    "sign",
    "fusegen::sign({input})",
    "torch.sign({input})",
    "-1, 0 or 1 by the sign; 0 for NaN.",
    cost=3,
    accepts=Accepts.ANY,
    exact=True,
    gradient=_no_slope,
)
SQUARE = unary(
    "square",
    "fusegen::square({input})",
    "torch.square({input})",
    "The square.",
    accepts=Accepts.NUMBERS,
    gradient=_square,
)
SQRT = unary(
    "sqrt",
    "fusegen::sqrt({input})",
    "torch.sqrt({input})",
    "The square root.",
    cost=8,
    floating=True,
    gradient=_sqrt,
)
RSQRT = unary(
    "rsqrt",
    "fusegen::rsqrt({input})",
    "torch.rsqrt({input})",
    "The reciprocal of the square root.",
    cost=8,
    floating=True,
    gradient=_rsqrt,
)
RECIPROCAL = unary(
    "reciprocal",
    "1 / {input}",
    "torch.reciprocal({input})",
    "The reciprocal.",
    cost=8,
    floating=True,
    gradient=_reciprocal,
)

RECORDS = (
    ADD,
    SUB,
    MUL,
    DIVIDE,
    FLOOR_DIVIDE,
    TRUNCATE_DIVIDE,
    REMAINDER,
    POWER,
    MINIMUM,
    MAXIMUM,
    NEG,
    ABS,
    SIGN,
    SQUARE,
    SQRT,
    RSQRT,
    RECIPROCAL,
)
