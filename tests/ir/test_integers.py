"""Symbolic integers: arithmetic against Python's, the normal form, and what can be proved."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusegen.ir.integers import (
    ONE,
    ZERO,
    Integer,
    divide_exactly,
    is_below,
    maximum,
    product,
)

N, M = Integer.symbol("n"), Integer.symbol("m")


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> Integer:
    """Expressions over two sizes that are never negative."""
    if not depth or draw(st.integers(0, 2)) == 0:
        return draw(st.sampled_from([N, M, ZERO, ONE, Integer.of(4)]))
    first, second = draw(expressions(depth - 1)), draw(expressions(depth - 1))
    divisor = draw(st.sampled_from([Integer.of(2), Integer.of(3), N, M, N * 2]))
    return draw(
        st.sampled_from([first + second, first * second, first // divisor, first % divisor])
    )


def python_value(value: Integer, sizes: Mapping[str, int]) -> int:
    """The value by evaluating the text."""
    found = eval(str(value), {}, dict(sizes))
    assert isinstance(found, int)
    return found


@settings(max_examples=300)
@given(first=expressions(), second=expressions(), n=st.integers(1, 9), m=st.integers(1, 9))
def test_arithmetic_is_pythons(first: Integer, second: Integer, n: int, m: int) -> None:
    sizes = {"n": n, "m": m}
    a, b = first.evaluate(sizes), second.evaluate(sizes)
    assert (first + second).evaluate(sizes) == a + b
    assert (first - second).evaluate(sizes) == a - b
    assert (first * second).evaluate(sizes) == a * b
    assert (first // (M + 1)).evaluate(sizes) == a // (m + 1)
    assert (first % (M * 2)).evaluate(sizes) == a % (m * 2)
    assert python_value(first, sizes) == a


@settings(max_examples=200)
@given(value=expressions(), n=st.integers(1, 9))
def test_substitution_then_evaluation(value: Integer, n: int) -> None:
    (symbol,) = N.symbols()
    assert value.substitute({symbol: n}).evaluate({"m": 4}) == value.evaluate({"n": n, "m": 4})


@settings(max_examples=200)
@given(first=expressions(), second=expressions(), third=expressions())
def test_equal_expressions_compare_equal(first: Integer, second: Integer, third: Integer) -> None:
    assert first + second == second + first
    assert first * second == second * first
    assert (first + second) + third == first + (second + third)
    assert first - first == ZERO


def test_constants() -> None:
    assert Integer.of(0) == ZERO
    assert ZERO.constant == 0
    assert Integer.of(7).constant == 7
    assert N.constant is None
    assert (N - N + 2).constant == 2
    assert product([2, N, 3]) == N * 6
    assert product([]) == ONE


def coordinate(name: str, extent: Integer | int) -> Integer:
    """A coordinate below the extent."""
    return Integer.symbol(name, extent)


def test_a_split_index_is_joined_again() -> None:
    i, j = coordinate("i", N), coordinate("j", 4)
    flat = i * 4 + j
    assert flat // 4 == i
    assert flat % 4 == j
    assert flat // 4 * 4 + flat % 4 == flat


def test_a_flat_index_is_split_at_a_symbolic_size() -> None:
    i, j = coordinate("i", N), coordinate("j", M)
    flat = i * M + j
    assert flat // M == i
    assert flat % M == j


def test_quotients_of_quotients_are_joined() -> None:
    i = coordinate("i", N * 12)
    assert i // 3 // 4 == i // 12


def test_a_quotient_and_its_remainder_make_the_whole() -> None:
    i = coordinate("i", N)
    assert i // 6 * 6 + i % 6 == i
    assert (i // 6 * 6 + i % 6) * M == i * M


@pytest.mark.parametrize("number", [-9, -4, -3, -1, 1, 5, 11])
def test_what_is_divided_by_a_number_has_no_constant_below_zero(number: int) -> None:
    """C++ rounds quotients of negative numbers towards zero, and their remainders are negative."""
    i, j = coordinate("i", N), coordinate("j", M)
    value = 8 * i + j + number
    for rest in (value % 4).divisions() | (value // 4).divisions():
        assert rest.numerator.substitute({i.alone: 0, j.alone: 0}).evaluate({}) == number % 4
    for at in range(12, 20):
        exact = (8 + at + number) // 4, (8 + at + number) % 4
        parts = (value // 4, value % 4)
        found = (part.substitute({i.alone: 1, j.alone: at}).evaluate({}) for part in parts)
        assert tuple(found) == exact


@pytest.mark.parametrize(
    "value,limit,expected",
    [
        (coordinate("i", N), N, True),
        (coordinate("i", N), M, False),
        (coordinate("i", N) * 4 + coordinate("j", 4), N * 4, True),
        (coordinate("i", N) * 4 + coordinate("j", 5), N * 4, False),
        (Integer.of(3), Integer.of(4), True),
        (Integer.of(0), N, True),
        (Integer.of(1), N, False),
        (N - 1, N, False),  # of a size of at least 1 true, but not seen
    ],
)
def test_is_below(value: Integer, limit: Integer, expected: bool) -> None:
    assert is_below(value, limit) is expected


@settings(max_examples=200)
@given(
    data=st.data(), sizes=st.fixed_dictionaries({"n": st.integers(1, 4), "m": st.integers(1, 4)})
)
def test_what_is_proved_below_is_below_everywhere(
    data: st.DataObject, sizes: dict[str, int]
) -> None:
    i, j = coordinate("i", N), coordinate("j", M)
    terms = st.sampled_from([i, j, i * M, i * 2 + j, i * M + j, (i * M + j) // 2, (i + j) % 3])
    value = data.draw(terms) + data.draw(st.integers(0, 1))
    limit = data.draw(st.sampled_from([N, M, N * M, N * M + 1, Integer.of(3), N + M, N * 2]))
    every = [
        value.evaluate({**sizes, "i": at_i, "j": at_j})
        for at_i, at_j in itertools.product(range(sizes["n"]), range(sizes["m"]))
    ]
    assert max(every) <= maximum(value).evaluate(sizes)
    if is_below(value, limit):
        assert max(every) < limit.evaluate(sizes)


@pytest.mark.parametrize(
    "value,divisor,expected",
    [
        (N * M, M, N),
        (N * 6, Integer.of(3), N * 2),
        (N * 6, Integer.of(4), None),
        ((N + 1) * M, N + 1, M),
        (N * N - 1, N - 1, N + 1),
        (N + 1, N, None),
        (ZERO, N, ZERO),
        (N, ZERO, None),
    ],
)
def test_divide_exactly(value: Integer, divisor: Integer, expected: Integer | None) -> None:
    assert divide_exactly(value, divisor) == expected


@pytest.mark.parametrize(
    "value,text",
    [(ZERO, "0"), (N + 1, "1 + n"), (N * M * 2, "2 * m * n"), (N - M, "-1 * m + n")],
)
def test_text(value: Integer, text: str) -> None:
    assert str(value) == text


def test_evaluation_names_a_missing_size() -> None:
    with pytest.raises(KeyError, match="m"):
        (N + M).evaluate({"n": 1})
