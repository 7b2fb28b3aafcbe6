"""Numbers and integer expressions as C++ text."""

from __future__ import annotations

import math
import re
import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fusegen.codegen.c_text import compute_type, factor, integer, loaded, number, stored
from fusegen.ir.dtypes import DType
from fusegen.ir.integers import Integer
from tests.plan.numeric import evaluate
from tests.plan.test_index_arithmetic import positions


def single(value: float) -> float:
    """The nearest float32."""
    return float(struct.unpack("f", struct.pack("f", value))[0])


@settings(max_examples=500)
@given(
    value=st.floats(
        allow_nan=False, allow_infinity=False, width=64, min_value=-3e38, max_value=3e38
    )
)
@example(value=1 + 2**-24)  # between two float32: the decimal text must not lean to one
@example(value=1 + 3 * 2**-24)
@example(value=-0.0)
@example(value=1e-45)
@example(value=3.4028234663852886e38)
def test_a_float32_literal_is_the_nearest_float32(value: float) -> None:
    text = number(value, DType.FLOAT32)
    assert re.fullmatch(r"\(?-?[\d.]+(e[+-]?\d+)?f\)?", text)
    read = single(float(text.strip("()").rstrip("f")))
    assert read == single(value) and math.copysign(1, read) == math.copysign(1, value)


@settings(max_examples=200)
@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_a_float64_literal_is_exact(value: float) -> None:
    assert float(number(value, DType.FLOAT64).strip("()")) == value


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (0.01, DType.FLOAT32, "0.01f"),
        (2, DType.BFLOAT16, "2.0f"),
        (-1.5, DType.FLOAT32, "(-1.5f)"),
        (math.inf, DType.FLOAT32, "fusegen::infinity<float>()"),
        (-math.inf, DType.FLOAT64, "(-fusegen::infinity<double>())"),
        (1e39, DType.FLOAT32, "fusegen::infinity<float>()"),
        (math.nan, DType.FLOAT16, "fusegen::not_a_number<float>()"),
        (True, DType.BOOL, "true"),
        (3, DType.INT8, "static_cast<int8_t>(3)"),
    ],
)
def test_numbers(value: float, dtype: DType, text: str) -> None:
    assert number(value, dtype) == text


N, INDEX = Integer.symbol("n"), Integer.symbol("i", 64)
NAMES = {symbol: symbol.name for symbol in (N * INDEX).symbols()}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Integer.of(0), "0"),
        (Integer.of(-3), "0 - 3"),
        (N * 4 - 1, "n * 4 - 1"),
        (INDEX // 8, "i / 8"),
        (INDEX % 8, "i % 8"),
        (INDEX // 8 * 4 + INDEX % 8, "(i % 8) + (i / 8) * 4"),
        ((INDEX + 1) // N, "(1 + i) / n"),
        (N * INDEX, "i * n"),
    ],
)
def test_integers(value: Integer, text: str) -> None:
    assert integer(value, NAMES) == text


@pytest.mark.parametrize(
    ("value", "text"), [(N, "n"), (Integer.of(7), "7"), (INDEX % 8, "(i % 8)"), (N + 1, "(1 + n)")]
)
def test_factors(value: Integer, text: str) -> None:
    assert factor(value, NAMES) == text


@settings(max_examples=500)
@given(drawn=positions(), at=st.tuples(*[st.integers(1, 9)] * 6))
def test_the_text_of_an_expression_has_its_value(
    drawn: tuple[Integer, object], at: tuple[int, ...]
) -> None:
    """Python reads it as C++ does, but for the sign of integer division."""
    value = drawn[0]
    numbers = dict(zip(("n", "m", "k", "i", "j", "l"), at, strict=True))
    names = {symbol: symbol.name for symbol in value.symbols()}
    text = integer(value, names).replace("/", "//")
    assert eval(text, {}, numbers) == evaluate(value, numbers)
    assert 2 * eval(factor(value, names).replace("/", "//"), {}, numbers) == 2 * eval(
        text, {}, numbers
    )


def test_conversions_stand_only_where_the_types_differ() -> None:
    assert stored("x", DType.FLOAT32, DType.FLOAT32) == "x"
    assert stored("x", DType.BFLOAT16, DType.BFLOAT16) == "convert<bfloat16>(x)"
    assert loaded("x", DType.INT64) == "x"
    assert loaded("x", DType.FLOAT16) == "convert<float>(x)"
    assert compute_type(DType.FLOAT16) == "float"
