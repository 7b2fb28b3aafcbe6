"""Exponentials, logarithms, trigonometry and rounding."""

from __future__ import annotations

from fusegen.ops.inference import Accepts
from fusegen.ops.pointwise.define import unary
from fusegen.ops.record import Pointwise


def _transcendental(
    name: str, summary: str, cost: int = 10, device_name: str | None = None
) -> Pointwise:
    return unary(
        name,
        f"fusegen::{device_name or name}({{input}})",
        f"torch.{name}({{input}})",
        summary,
        cost=cost,
        floating=True,
    )


def _rounding(name: str, summary: str) -> Pointwise:
    return unary(
        name,
        f"fusegen::{name}({{input}})",
        f"torch.{name}({{input}})",
        summary,
        accepts=Accepts.NUMBERS,
    )


EXP = _transcendental("exp", "The exponential.", device_name="exponential")
EXP2 = _transcendental("exp2", "2 to the power of `input`.")
EXPM1 = _transcendental("expm1", "`exp(input) - 1`, accurate near 0.", cost=15)
LOG = _transcendental("log", "The natural logarithm.", device_name="logarithm")
LOG1P = _transcendental("log1p", "`log(1 + input)`, accurate near 0.", cost=15)
LOG2 = _transcendental("log2", "The logarithm to base 2.")
LOG10 = _transcendental("log10", "The logarithm to base 10.")
SIN = _transcendental("sin", "The sine.", cost=20)
COS = _transcendental("cos", "The cosine.", cost=20)
TAN = _transcendental("tan", "The tangent.", cost=30)
TANH = _transcendental("tanh", "The hyperbolic tangent.", cost=15)
ERF = _transcendental("erf", "The error function.", cost=20)

FLOOR = _rounding("floor", "Rounded down.")
CEIL = _rounding("ceil", "Rounded up.")
TRUNC = _rounding("trunc", "Rounded towards zero.")
ROUND = _rounding("round", "Rounded to the nearest integer, halves to even.")

CLONE = unary("clone", "{input}", "torch.clone({input})", "A copy.", accepts=Accepts.ANY)

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
