"""Types, numbers and integer expressions as C++ text."""

from __future__ import annotations

import math
from collections.abc import Mapping

from fusegen.ir.dtypes import DType
from fusegen.ir.integers import Integer, Quotient, Remainder, Symbol

STORAGE = {
    DType.BOOL: "bool",
    DType.UINT8: "uint8_t",
    DType.INT8: "int8_t",
    DType.INT16: "int16_t",
    DType.INT32: "int32_t",
    DType.INT64: "int64_t",
    DType.FLOAT16: "float16",
    DType.BFLOAT16: "bfloat16",
    DType.FLOAT32: "float",
    DType.FLOAT64: "double",
}


def storage_type(dtype: DType) -> str:
    """The C++ type of an element in memory."""
    return STORAGE[dtype]


def compute_type(dtype: DType) -> str:
    """The C++ type arithmetic on the dtype is done in."""
    return STORAGE[dtype.compute]


def number(value: bool | int | float, dtype: DType) -> str:
    """A literal of the dtype's compute type."""
    if dtype is DType.BOOL:
        return "true" if value else "false"
    if not dtype.is_float:
        return f"static_cast<{compute_type(dtype)}>({int(value)})"
    single = dtype.compute is DType.FLOAT32
    if math.isnan(value):
        return f"fusegen::not_a_number<{compute_type(dtype)}>()"
    if single and abs(value) > 3.4028235677973366e38:  # rounds to infinity, as in PyTorch
        value = math.copysign(math.inf, value)
    if math.isinf(value):
        text = f"fusegen::infinity<{compute_type(dtype)}>()"
        return f"(-{text})" if value < 0 else text
    text = repr(float(value)) + ("f" if single else "")
    return f"({text})" if math.copysign(1.0, value) < 0 else text


def integer(value: Integer, names: Mapping[Symbol, str]) -> str:
    """An integer expression over int64 variables; `names` gives the variables."""
    if not value.terms:
        return "0"
    positive = [_term(m, c, names) for m, c in value.terms if c > 0]
    negative = [_term(m, -c, names) for m, c in value.terms if c < 0]
    text = " + ".join(positive) or "0"
    return " - ".join([text, *negative])


def factor(value: Integer, names: Mapping[Symbol, str]) -> str:
    """An integer expression, in parentheses unless it is a name or a number."""
    text = integer(value, names)
    is_atom = len(value.terms) <= 1 and sum(len(m) or 1 for m, _ in value.terms) <= 1
    is_plain = is_atom and all(c == 1 or not m for m, c in value.terms) and "-" not in text
    return text if is_plain else f"({text})"


def _term(
    monomial: tuple[Symbol | Quotient | Remainder, ...],
    coefficient: int,
    names: Mapping[Symbol, str],
) -> str:
    factors = [
        names[a]
        if isinstance(a, Symbol)
        else f"({factor(a.numerator, names)} {'/' if isinstance(a, Quotient) else '%'} "
        f"{factor(a.denominator, names)})"
        for a in monomial
    ]
    if coefficient != 1 or not factors:
        factors.append(str(coefficient))
    return " * ".join(factors)
