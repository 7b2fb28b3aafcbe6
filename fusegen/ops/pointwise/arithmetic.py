"""Arithmetic on one or two tensors."""

from __future__ import annotations

from fusegen.ops.inference import Accepts
from fusegen.ops.pointwise.define import binary, unary

ADD = binary(
    "add", "{input} + {other}", "{input:operand} + {other:operand}", "The sum, elementwise."
)
SUB = binary(
    "sub",
    "{input} - {other}",
    "{input:operand} - {other:operand}",
    "The difference, elementwise.",
    accepts=Accepts.NUMBERS,
)
MUL = binary(
    "mul", "{input} * {other}", "{input:operand} * {other:operand}", "The product, elementwise."
)
DIVIDE = binary(
    "div",
    "{input} / {other}",
    "{input:operand} / {other:operand}",
    "The quotient, elementwise; that of integers is floating-point.",
    cost=8,
    floating=True,
)
FLOOR_DIVIDE = binary(
    "floor_divide",
    "fusegen::floor_divide({input}, {other})",
    "{input:operand} // {other:operand}",
    "The quotient rounded down, elementwise.",
    cost=16,
    accepts=Accepts.NUMBERS,
)
TRUNCATE_DIVIDE = binary(
    "truncate_divide",
    "fusegen::truncate_divide({input}, {other})",
    'torch.div({input:number}, {other:number}, rounding_mode="trunc")',
    "The quotient rounded towards zero, elementwise.",
    cost=10,
    accepts=Accepts.NUMBERS,
)
REMAINDER = binary(
    "remainder",
    "fusegen::remainder({input}, {other})",
    "{input:operand} % {other:operand}",
    "The remainder with the divisor's sign, elementwise.",
    cost=20,
    accepts=Accepts.NUMBERS,
)
POWER = binary(
    "power",
    "fusegen::power({input}, {other})",
    "{input:operand} ** {other:operand}",
    "`input` to the power of `other`, elementwise.",
    cost=40,
    accepts=Accepts.NUMBERS,
)
MINIMUM = binary(
    "minimum",
    "fusegen::minimum({input}, {other})",
    "torch.minimum({input}, {other})",
    "The lesser, elementwise; NaN if either is.",
    cost=2,
)
MAXIMUM = binary(
    "maximum",
    "fusegen::maximum({input}, {other})",
    "torch.maximum({input}, {other})",
    "The greater, elementwise; NaN if either is.",
    cost=2,
)

NEG = unary("neg", "-{input}", "-{input:operand}", "The negative.", accepts=Accepts.NUMBERS)
ABS = unary(
    "abs",
    "fusegen::absolute({input})",
    "torch.abs({input})",
    "The absolute value.",
    accepts=Accepts.NUMBERS,
)
SIGN = unary(
    "sign",
    "fusegen::sign({input})",
    "torch.sign({input})",
    "-1, 0 or 1 by the sign; 0 for NaN.",
    cost=3,
    accepts=Accepts.ANY,
)
SQUARE = unary(
    "square",
    "fusegen::square({input})",
    "torch.square({input})",
    "The square.",
    accepts=Accepts.NUMBERS,
)
SQRT = unary(
    "sqrt",
    "fusegen::sqrt({input})",
    "torch.sqrt({input})",
    "The square root.",
    cost=8,
    floating=True,
)
RSQRT = unary(
    "rsqrt",
    "fusegen::rsqrt({input})",
    "torch.rsqrt({input})",
    "The reciprocal of the square root.",
    cost=8,
    floating=True,
)
RECIPROCAL = unary(
    "reciprocal",
    "1 / {input}",
    "torch.reciprocal({input})",
    "The reciprocal.",
    cost=8,
    floating=True,
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
