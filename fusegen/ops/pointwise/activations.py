"""Activation functions, by the names in `torch.nn.functional`."""

from __future__ import annotations

from fusegen.ops.inference import Accepts
from fusegen.ops.parameters import floating, text
from fusegen.ops.pointwise.define import unary
from fusegen.ops.record import Parameter, Pointwise


def _activation(name: str, summary: str, *parameters: Parameter, cost: int) -> Pointwise:
    arguments = ", ".join(f"{{{p.name}}}" for p in parameters)
    return unary(
        name,
        f"fusegen::{name}({{input}}{', ' if arguments else ''}{arguments})",
        f"F.{name}({{input}}{''.join(f', {p.name}={{{p.name}}}' for p in parameters)})",
        summary,
        cost=cost,
        parameters=parameters,
    )


SIGMOID = unary(
    "sigmoid",
    "fusegen::sigmoid({input})",
    "torch.sigmoid({input})",
    "The logistic function, `1 / (1 + exp(-input))`.",
    cost=18,
    floating=True,
)
LOGSIGMOID = _activation("logsigmoid", "The logarithm of the sigmoid.", cost=26)
RELU = unary(
    "relu",
    "fusegen::relu({input})",
    "F.relu({input})",
    "`input` where it is positive, else 0.",
    cost=2,
    accepts=Accepts.NUMBERS,
)
RELU6 = _activation("relu6", "`input` held between 0 and 6.", cost=3)
LEAKY_RELU = _activation(
    "leaky_relu",
    "`input` where it is positive, else `negative_slope * input`.",
    floating("negative_slope", 0.01),
    cost=3,
)
ELU = _activation(
    "elu",
    "`input` where it is positive, else `alpha * (exp(input) - 1)`.",
    floating("alpha", 1.0),
    cost=18,
)
SELU = _activation("selu", "`elu` scaled so that its output keeps unit variance.", cost=18)
CELU = _activation(
    "celu",
    "`input` where it is positive, else `alpha * (exp(input / alpha) - 1)`.",
    floating("alpha", 1.0),
    cost=26,
)
GELU = unary(
    "gelu",
    "fusegen::gelu_{approximate}({input})",
    "F.gelu({input}, approximate={approximate})",
    "`input` times the normal distribution's cumulative function, exact or by tanh.",
    cost=24,
    parameters=(text("approximate", "none", ("none", "tanh")),),
)
SILU = _activation("silu", "`input * sigmoid(input)`.", cost=19)
MISH = _activation("mish", "`input * tanh(softplus(input))`.", cost=40)
SOFTPLUS = _activation(
    "softplus",
    "`log(1 + exp(beta * input)) / beta`, and `input` where `beta * input > threshold`.",
    floating("beta", 1.0),
    floating("threshold", 20.0),
    cost=30,
)
SOFTSIGN = _activation("softsign", "`input / (1 + abs(input))`.", cost=10)
SOFTSHRINK = _activation(
    "softshrink", "`input` moved towards 0 by `lambd`.", floating("lambd", 0.5), cost=4
)
HARDSHRINK = _activation(
    "hardshrink",
    "`input`, with 0 from `-lambd` to `lambd`.",
    floating("lambd", 0.5),
    cost=3,
)
TANHSHRINK = _activation("tanhshrink", "`input - tanh(input)`.", cost=16)
THRESHOLD = unary(
    "threshold",
    "fusegen::threshold({input}, {threshold}, {value})",
    "F.threshold({input}, {threshold}, {value})",
    "`input` where it is above `threshold`, else `value`.",
    cost=2,
    parameters=(floating("threshold"), floating("value")),
)
HARDTANH = _activation(
    "hardtanh",
    "`input` held between `min_val` and `max_val`.",
    floating("min_val", -1.0),
    floating("max_val", 1.0),
    cost=3,
)
HARDSIGMOID = _activation("hardsigmoid", "`relu6(input + 3) / 6`.", cost=5)
HARDSWISH = _activation("hardswish", "`input * relu6(input + 3) / 6`.", cost=6)

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
