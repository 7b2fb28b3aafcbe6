"""Activation functions, by the names in `torch.nn.functional`."""

from __future__ import annotations

import math
from collections.abc import Callable

from fusegen.ir.graph import Node
from fusegen.ops import build
from fusegen.ops.inference import Accepts
from fusegen.ops.parameters import floating, text
from fusegen.ops.pointwise.define import unary
from fusegen.ops.record import Gradient, Near, Parameter, Pointwise

# The constants of Klambauer et al., "Self-Normalizing Neural Networks" (2017).
SELU_SCALE = 1.0507009873554804934193349852946
SELU_ALPHA = 1.6732632423543772848170429916717


def _sloped(slope: Callable[[Node], Node]) -> Gradient:
    """The gradient times what `slope` makes of the operand."""

    def gradient_of(node: Node, gradient: Node) -> tuple[Node]:
        return (build.mul(gradient, slope(node.operands[0])),)

    return gradient_of


def _sigmoid(node: Node, gradient: Node) -> tuple[Node]:
    return (build.mul(gradient, build.mul(build.sub(1, node), node)),)


def _relu(node: Node, gradient: Node) -> tuple[Node]:
    return (build.where(build.le(node, 0), 0, gradient),)


def _within(node: Node, gradient: Node, least: float, greatest: float) -> tuple[Node]:
    """Nothing passes at the bounds or beyond them."""
    (x,) = node.operands
    outside = build.either(build.le(x, least), build.ge(x, greatest))
    return (build.where(outside, 0, gradient),)


def _hardtanh(node: Node, gradient: Node) -> tuple[Node]:
    bounds = (node.attributes.number(name) for name in ("min_val", "max_val"))
    return _within(node, gradient, *bounds)


def _relu6(node: Node, gradient: Node) -> tuple[Node]:
    return _within(node, gradient, 0.0, 6.0)


def _hardsigmoid(node: Node, gradient: Node) -> tuple[Node]:
    (x,) = node.operands
    inside = build.both(build.gt(x, -3), build.lt(x, 3))
    return (build.where(inside, build.div(gradient, 6), 0),)


def _hardswish(node: Node, gradient: Node) -> tuple[Node]:
    (x,) = node.operands
    bent = build.mul(gradient, build.add(build.div(x, 3), 0.5))
    return (build.where(build.le(x, -3), 0, build.where(build.lt(x, 3), bent, gradient)),)


def _leaky_relu(node: Node, gradient: Node) -> tuple[Node]:
    slope = node.attributes.number("negative_slope")
    return (build.where(build.gt(node.operands[0], 0), gradient, build.mul(gradient, slope)),)


def _exponential_tail(
    node: Node, gradient: Node, alpha: float, rate: float, scale: float
) -> tuple[Node]:
    """Of `scale * x` where x is positive, else `scale * alpha * (exp(rate * x) - 1)`."""
    (x,) = node.operands
    tail = build.mul(gradient, build.mul(build.exp(build.mul(x, rate)), scale * alpha * rate))
    return (build.where(build.le(x, 0), tail, build.mul(gradient, scale)),)


def _elu(node: Node, gradient: Node) -> tuple[Node]:
    return _exponential_tail(node, gradient, node.attributes.number("alpha"), 1.0, 1.0)


def _selu(node: Node, gradient: Node) -> tuple[Node]:
    return _exponential_tail(node, gradient, SELU_ALPHA, 1.0, SELU_SCALE)


def _celu(node: Node, gradient: Node) -> tuple[Node]:
    alpha = node.attributes.number("alpha")
    return _exponential_tail(node, gradient, alpha, 1 / alpha, 1.0)


def _normal_density(x: Node) -> Node:
    return build.mul(build.exp(build.mul(build.square(x), -0.5)), 1 / math.sqrt(2 * math.pi))


def _bend(x: Node) -> Node:
    """The slope of the slope of the exact gelu."""
    return build.mul(_normal_density(x), build.sub(2, build.square(x)))


def _gelu(node: Node, gradient: Node) -> tuple[Node]:
    """By tanh: (1 + tanh(u)) / 2 is sigmoid(2 u)."""
    (x,) = node.operands
    if node.attributes.text("approximate") == "none":
        slope = build.gelu_slope(x)
    else:
        twice = 2 * math.sqrt(2 / math.pi)
        squared = build.square(x)
        inner = build.mul(build.mul(x, twice), build.add(build.mul(squared, 0.044715), 1))
        inner_slope = build.add(build.mul(squared, 3 * 0.044715 * twice), twice)
        below = build.sigmoid(inner)
        bend = build.mul(below, build.sub(1, below))
        slope = build.add(below, build.mul(build.mul(x, bend), inner_slope))
    return (build.mul(gradient, slope),)


def _silu_slope(x: Node) -> Node:
    part = build.sigmoid(x)
    return build.mul(part, build.add(build.mul(x, build.sub(1, part)), 1))


def _mish_slope(x: Node) -> Node:
    """tanh(softplus(x)) is e (e + 2) / (e (e + 2) + 2) for e = exp(x), and 1 above 20."""
    power = build.exp(build.minimum(x, 20))
    part = build.mul(power, build.add(power, 2))
    weight = build.div(part, build.add(part, 2))
    bend = build.mul(build.div(power, build.add(power, 1)), build.sub(1, build.square(weight)))
    return build.add(weight, build.mul(x, bend))


def _softplus(node: Node, gradient: Node) -> tuple[Node]:
    scaled = build.mul(node.operands[0], node.attributes.number("beta"))
    linear = build.gt(scaled, node.attributes.number("threshold"))
    return (build.where(linear, gradient, build.mul(gradient, build.sigmoid(scaled))),)


def _softsign(node: Node, gradient: Node) -> tuple[Node]:
    divisor = build.add(build.absolute(node.operands[0]), 1)
    slope = build.reciprocal(build.square(divisor))
    # NaN where the value is, as by the quotient rule: at infinities.
    return (build.mul(gradient, build.where(build.eq(node, node), slope, node)),)


def _shrink(node: Node, gradient: Node) -> tuple[Node]:
    held = build.le(build.absolute(node.operands[0]), node.attributes.number("lambd"))
    return (build.where(held, 0, gradient),)


def _tanhshrink_slope(x: Node) -> Node:
    return build.square(build.tanh(x))


def _threshold(node: Node, gradient: Node) -> tuple[Node]:
    held = build.le(node.operands[0], node.attributes.number("threshold"))
    return (build.where(held, 0, gradient),)


def _activation(
    name: str,
    summary: str,
    *parameters: Parameter,
    cost: int,
    gradient: Gradient,
    near: Near | None = None,
    exact: bool = False,
) -> Pointwise:
    arguments = ", ".join(f"{{{p.name}}}" for p in parameters)
    return unary(
        name,
        f"fusegen::{name}({{input}}{', ' if arguments else ''}{arguments})",
        f"F.{name}({{input}}{''.join(f', {p.name}={{{p.name}}}' for p in parameters)})",
        summary,
        cost=cost,
        near=near,
        exact=exact,
        parameters=parameters,
        gradient=gradient,
    )


SIGMOID = unary(
    "sigmoid",
    "fusegen::sigmoid({input})",
    "torch.sigmoid({input})",
    "The logistic function, `1 / (1 + exp(-input))`.",
    cost=18,
    floating=True,
    near=Near(
        "fusegen::near_sigmoid({input})", 5, 2, Near("fusegen::multiplied_sigmoid({input})", 10, 1)
    ),
    gradient=_sigmoid,
)
LOGSIGMOID = _activation(
    "logsigmoid",
    "The logarithm of the sigmoid.",
    cost=26,
    gradient=_sloped(lambda x: build.sigmoid(build.neg(x))),
)
RELU = unary(
    "relu",
    "fusegen::relu({input})",
    "F.relu({input})",
    "`input` where it is positive, else 0.",
    cost=2,
    accepts=Accepts.NUMBERS,
    exact=True,
    gradient=_relu,
)
RELU6 = _activation("relu6", "`input` held between 0 and 6.", cost=3, exact=True, gradient=_relu6)
LEAKY_RELU = _activation(
    "leaky_relu",
    "`input` where it is positive, else `negative_slope * input`.",
    floating("negative_slope", 0.01),
    cost=3,
    gradient=_leaky_relu,
)
ELU = _activation(
    "elu",
    "`input` where it is positive, else `alpha * (exp(input) - 1)`.",
    floating("alpha", 1.0),
    cost=18,
    gradient=_elu,
)
SELU = _activation(
    "selu", "`elu` scaled so that its output keeps unit variance.", cost=18, gradient=_selu
)
CELU = _activation(
    "celu",
    "`input` where it is positive, else `alpha * (exp(input / alpha) - 1)`.",
    floating("alpha", 1.0),
    cost=26,
    gradient=_celu,
)
GELU = unary(
    "gelu",
    "fusegen::gelu_{approximate}({input})",
    "F.gelu({input}, approximate={approximate})",
    "`input` times the normal distribution's cumulative function, exact or by tanh.",
    cost=24,
    # By tanh they are 8, with two special functions, which take as long.
    near=Near("fusegen::near_gelu_{approximate}({input})", 16, 1),
    parameters=(text("approximate", "none", ("none", "tanh")),),
    gradient=_gelu,
)
# Kept off the language. By erfc, which keeps the digits that 1 + erf cancels in the left tail.
GELU_SLOPE = unary(
    "gelu_slope",
    "fusegen::gelu_slope({input})",
    "(0.5 * torch.erfc(-0.7071067811865476 * {input})"
    " + {input} * (0.3989422804014327 * torch.exp(-0.5 * {input} * {input})))",
    "The slope of the exact gelu.",
    cost=24,
    gradient=_sloped(_bend),
)
SILU = _activation(
    "silu",
    "`input * sigmoid(input)`.",
    cost=19,
    near=Near(
        "{input} * fusegen::near_sigmoid({input})",
        6,
        2,
        Near("fusegen::multiplied_silu({input})", 10, 1),
    ),
    gradient=_sloped(_silu_slope),
)
MISH = _activation(
    "mish",
    "`input * tanh(softplus(input))`.",
    cost=40,
    near=Near(
        "fusegen::near_mish({input})", 10, 2, Near("fusegen::multiplied_mish({input})", 14, 1)
    ),
    gradient=_sloped(_mish_slope),
)
SOFTPLUS = _activation(
    "softplus",
    "`log(1 + exp(beta * input)) / beta`, and `input` where `beta * input > threshold`.",
    floating("beta", 1.0),
    floating("threshold", 20.0),
    cost=30,
    near=Near("fusegen::near_softplus({input}, {beta}, {threshold})", 18, 3),
    gradient=_softplus,
)
SOFTSIGN = _activation("softsign", "`input / (1 + abs(input))`.", cost=10, gradient=_softsign)
SOFTSHRINK = _activation(
    "softshrink",
    "`input` moved towards 0 by `lambd`.",
    floating("lambd", 0.5),
    cost=4,
    gradient=_shrink,
)
HARDSHRINK = _activation(
    "hardshrink",
    "`input`, with 0 from `-lambd` to `lambd`.",
    floating("lambd", 0.5),
    cost=3,
    exact=True,
    gradient=_shrink,
)
TANHSHRINK = _activation(
    "tanhshrink", "`input - tanh(input)`.", cost=16, gradient=_sloped(_tanhshrink_slope)
)
THRESHOLD = unary(
    "threshold",
    "fusegen::threshold({input}, {threshold}, {value})",
    "F.threshold({input}, {threshold}, {value})",
    "`input` where it is above `threshold`, else `value`.",
    cost=2,
    exact=True,
    parameters=(floating("threshold"), floating("value")),
    gradient=_threshold,
)
HARDTANH = _activation(
    "hardtanh",
    "`input` held between `min_val` and `max_val`.",
    floating("min_val", -1.0),
    floating("max_val", 1.0),
    cost=3,
    exact=True,
    gradient=_hardtanh,
)
HARDSIGMOID = _activation(
    "hardsigmoid",
    "`relu6(input + 3) / 6`.",
    cost=5,
    near=Near("fusegen::relu6({input} + 3.0f) * 0.16666667f", 4, 0),
    gradient=_hardsigmoid,
)
HARDSWISH = _activation(
    "hardswish",
    "`input * relu6(input + 3) / 6`.",
    cost=6,
    near=Near("{input} * (fusegen::relu6({input} + 3.0f) * 0.16666667f)", 5, 0),
    gradient=_hardswish,
)

RECORDS = (
    SIGMOID,
    LOGSIGMOID,
    RELU,
    RELU6,
    LEAKY_RELU,
    ELU,
    SELU,
    CELU,
    GELU,
    SILU,
    MISH,
    SOFTPLUS,
    SOFTSIGN,
    SOFTSHRINK,
    HARDSHRINK,
    TANHSHRINK,
    THRESHOLD,
    HARDTANH,
    HARDSIGMOID,
    HARDSWISH,
)
