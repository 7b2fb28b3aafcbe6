"""Types, numbers and integer expressions as C++ text."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping

from fusegen.ir.dtypes import DType
from fusegen.ir.integers import Atom, Integer, Quotient, Symbol

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

# The names that PyTorch's `ScalarType` has for them.
SCALAR_TYPES = {
    DType.BOOL: "Bool",
    DType.UINT8: "Byte",
    DType.INT8: "Char",
    DType.INT16: "Short",
    DType.INT32: "Int",
    DType.INT64: "Long",
    DType.FLOAT16: "Half",
    DType.BFLOAT16: "BFloat16",
    DType.FLOAT32: "Float",
    DType.FLOAT64: "Double",
}


def storage_type(dtype: DType) -> str:
    """The C++ type of an element in memory."""
    return STORAGE[dtype]


def compute_type(dtype: DType) -> str:
    """The C++ type arithmetic on the dtype is done in."""
    return STORAGE[dtype.compute]


def stored(text: str, value: DType, memory: DType) -> str:
    """A value of one dtype, in its compute type, as it is stored in memory of another."""
    return text if compute_type(value) == STORAGE[memory] else f"convert<{STORAGE[memory]}>({text})"


def loaded(text: str, memory: DType) -> str:
    """An element in memory as a value in its compute type."""
    return text if memory.compute is memory else f"convert<{compute_type(memory)}>({text})"


def number(value: bool | int | float, dtype: DType) -> str:
    """A literal of the dtype's compute type."""
    if dtype is DType.BOOL:
        return "true" if value else "false"
    if not dtype.is_float:
        return f"static_cast<{compute_type(dtype)}>({int(value)})"
    single = dtype.compute is DType.FLOAT32
    if math.isnan(value):
        return f"fusegen::not_a_number<{compute_type(dtype)}>()"
    value = _rounded(value) if single and math.isinf(_rounded(value)) else value
    if math.isinf(value):
        text = f"fusegen::infinity<{compute_type(dtype)}>()"
        return f"(-{text})" if value < 0 else text
    text = f"{_nearest_single(value)}f" if single else repr(float(value))
    return f"({text})" if math.copysign(1.0, value) < 0 else text


def _nearest_single(value: float) -> float:
    """The number with the fewest digits that rounds to the same float32 as `value`: the shortest
    text of a float64 may lie on the other side of the middle between two float32."""
    rounded = _rounded(value)
    shortest = (float(f"{rounded:.{digits}g}") for digits in range(1, 10))
    return next(number for number in shortest if _rounded(number) == rounded)


def _rounded(value: float) -> float:
    """The nearest float32; infinity from half a unit beyond the greatest one on."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def integer(value: Integer, names: Mapping[Atom, str]) -> str:
    """An integer expression over int64 variables; `names` gives the variables, and the text for
    quotients and remainders that have been prepared."""
    if not value.terms:
        return "0"
    if len(value.terms) == 1:
        ((monomial, coefficient),) = value.terms
        if coefficient == 1 and len(monomial) == 1:
            return _atom(monomial[0], names)
    positive = [_term(m, c, names) for m, c in value.terms if c > 0]
    negative = [_term(m, -c, names) for m, c in value.terms if c < 0]
    text = " + ".join(positive) or "0"
    return " - ".join([text, *negative])


def factor(value: Integer, names: Mapping[Atom, str]) -> str:
    """An integer expression, in parentheses unless it is a name or a number."""
    text = integer(value, names)
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def _atom(atom: Atom, names: Mapping[Atom, str]) -> str:
    if isinstance(atom, Symbol) or atom in names:
        return names[atom]
    sign = "/" if isinstance(atom, Quotient) else "%"
    return f"{factor(atom.numerator, names)} {sign} {factor(atom.denominator, names)}"


def _term(
    monomial: tuple[Atom, ...],
    coefficient: int,
    names: Mapping[Atom, str],
) -> str:
    texts = [(atom, _atom(atom, names)) for atom in monomial]
    factors = [text if atom in names else f"({text})" for atom, text in texts]
    if coefficient != 1 or not factors:
        factors.append(str(coefficient))
    return " * ".join(factors)
