"""What the planner claims of neighbouring accesses, against the positions themselves."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusegen.ir.integers import Integer
from fusegen.plan.access import Access, access, compares_alike, crossed, even_sizes
from tests.plan.numeric import evaluate

N, M = Integer.symbol("n"), Integer.symbol("m")
EXTENT = Integer.of(48) * N
STEP = Integer.symbol("step", EXTENT)
ROW = Integer.symbol("row", 3)

numbers = st.sampled_from([1, 2, 3, 4, 8, 12, 16]).map(Integer.of)
sizes = st.one_of(numbers, st.sampled_from([N, M, N * 4, M * 8, N * M]))


@st.composite
def positions(draw: st.DrawFn) -> Integer:
    """An index expression over the loop variable, another coordinate, and sizes."""
    found = draw(st.sampled_from([STEP, STEP, STEP + ROW, ROW, ROW * 48 * N + STEP]))
    for _ in range(draw(st.integers(0, 3))):
        operation = draw(st.sampled_from(["+", "*", "//", "%", "row"]))
        by = draw(sizes)
        if operation == "+":
            found = found + by
        elif operation == "*":
            found = found * by
        elif operation == "//":
            found = found // by
        elif operation == "%":
            found = found % by
        else:
            found = found + ROW * by
    return found + draw(st.sampled_from([Integer.of(0), STEP % 8, STEP // 8 * 8, ROW * M]))


def claims_hold(
    kind: Access, position: Integer, vector: int, sizes: Mapping[str, int], steps: int
) -> None:
    """Check the claim for every aligned run of `vector` steps."""
    for first, row in itertools.product(range(0, steps, vector), range(3)):
        at = {**sizes, "row": row}
        run = [evaluate(position, {**at, "step": first + i}) for i in range(vector)]
        if kind is Access.UNIFORM:
            assert run == [run[0]] * vector
        if kind is Access.CONTIGUOUS:
            assert run == [run[0] + i for i in range(vector)]
            assert run[0] % vector == 0, "a wide access must be aligned"


@settings(max_examples=3000)
@given(
    position=positions(),
    vector=st.sampled_from([1, 2, 4, 8]),
    n=st.integers(1, 3),
    m=st.integers(1, 5),
)
def test_claims_hold_everywhere(position: Integer, vector: int, n: int, m: int) -> None:
    kind = access(position, STEP, vector)
    claims_hold(kind, position, vector, {"n": n, "m": m}, min(48 * n, 96))


@settings(max_examples=2000)
@given(position=positions(), vector=st.sampled_from([2, 4, 8]), factor=st.integers(1, 3))
def test_claims_hold_where_a_size_is_a_multiple_of_the_vector(
    position: Integer, vector: int, factor: int
) -> None:
    """The multiple is the number of columns: the launcher checks that vectors divide it."""
    kind = access(position, STEP, vector, (M,))
    claims_hold(kind, position, vector, {"n": 2, "m": vector * factor}, 96)


@settings(max_examples=1000)
@given(position=positions(), vector=st.sampled_from([2, 4]), factor=st.integers(1, 3))
def test_claims_hold_where_a_product_is_a_multiple_of_the_vector(
    position: Integer, vector: int, factor: int
) -> None:
    kind = access(position, STEP, vector, (M * N,))
    for n, m in ((vector, factor), (factor, vector)):
        claims_hold(kind, position, vector, {"n": n, "m": m}, min(48 * n, 96))


@settings(max_examples=2000)
@given(
    coordinate=positions(),
    bound=sizes,
    vector=st.sampled_from([1, 2, 4, 8]),
    n=st.integers(1, 3),
    m=st.integers(1, 5),
)
def test_what_compares_alike_does(
    coordinate: Integer, bound: Integer, vector: int, n: int, m: int
) -> None:
    """Also where a size is a multiple of the vector, which the launcher checks."""
    for multiples, size in (((), m), ((M,), m * vector)):
        if compares_alike(coordinate, bound, STEP, vector, multiples):
            lies_on_one_side(coordinate, bound, vector, {"n": n, "m": size})


def lies_on_one_side(
    coordinate: Integer, bound: Integer, vector: int, sizes: Mapping[str, int]
) -> None:
    limit = evaluate(bound, sizes)
    for first, row in itertools.product(range(0, min(48 * sizes["n"], 96), vector), range(3)):
        at = {**sizes, "row": row}
        run = [evaluate(coordinate, {**at, "step": first + i}) < limit for i in range(vector)]
        assert run == [run[0]] * vector


@pytest.mark.parametrize(
    ("coordinate", "bound", "multiples", "expected"),
    [
        pytest.param(STEP // 48 % 3, 2, (), True, id="a dim before the last one"),
        pytest.param(STEP % 48, 16, (), True, id="whole vectors on either side"),
        pytest.param(STEP % 48, 18, (), False, id="a bound within a vector"),
        pytest.param(STEP % 50, 16, (), False, id="vectors that wrap around"),
        pytest.param(STEP, M, (), False, id="a bound known at run time"),
        pytest.param(STEP, M, (M,), True, id="a bound that vectors divide"),
    ],
)
def test_what_vectors_have_on_one_side(
    coordinate: Integer, bound: int | Integer, multiples: tuple[Integer, ...], expected: bool
) -> None:
    limit = bound if isinstance(bound, Integer) else Integer.of(bound)
    assert compares_alike(coordinate, limit, STEP, 8, multiples) is expected


@pytest.mark.parametrize(
    ("position", "multiples", "expected"),
    [
        pytest.param(STEP, (), Access.CONTIGUOUS, id="itself"),
        pytest.param(STEP + 4, (), Access.CONTIGUOUS, id="an aligned shift"),
        pytest.param(STEP + 1, (), Access.SCATTERED, id="an unaligned shift"),
        pytest.param(STEP * 2, (), Access.SCATTERED, id="gaps"),
        pytest.param(STEP % 48, (), Access.CONTIGUOUS, id="a broadcast vector"),
        pytest.param(STEP % 6, (), Access.SCATTERED, id="a vector that wraps around"),
        pytest.param(STEP // (N * 24) * 8, (), Access.UNIFORM, id="a value some whole rows"),
        pytest.param(STEP // (N * 6), (), Access.SCATTERED, id="a value a part of some rows"),
        pytest.param(STEP // 48, (), Access.UNIFORM, id="a value a row"),
        pytest.param(STEP % M, (), Access.SCATTERED, id="an unknown width"),
        pytest.param(STEP % M, (M,), Access.CONTIGUOUS, id="a width that vectors divide"),
        pytest.param(ROW * M + STEP, (), Access.SCATTERED, id="rows of an unknown width"),
        pytest.param(ROW * M + STEP, (M,), Access.CONTIGUOUS, id="rows of a width that divides"),
        pytest.param(ROW, (), Access.UNIFORM, id="another coordinate"),
        pytest.param(STEP % 48 * 3 + STEP // 48, (), Access.SCATTERED, id="transposed"),
    ],
)
def test_useful_cases_are_found(
    position: Integer, multiples: tuple[Integer, ...], expected: Access
) -> None:
    assert access(position, STEP, 4, multiples) is expected


def test_sizes_that_decide_whether_vectors_share_an_element_are_found() -> None:
    assert even_sizes([STEP // M + ROW], STEP, 4) == (M,)
    assert even_sizes([STEP % M, STEP // M], STEP, 4) == (M,)
    assert even_sizes([STEP // 48, ROW // M, STEP * 2 // M], STEP, 4) == ()


@pytest.mark.parametrize("turn", [1, -1])
def test_sizes_do_not_depend_on_the_order_of_a_set(turn: int) -> None:
    """Which follows from the hashes of strings: other ones in every process."""
    divisions = sorted((STEP // M + STEP // (N * 3)).divisions(), key=str)[::turn]
    position: Any = SimpleNamespace(divisions=lambda: divisions)
    assert even_sizes([position], STEP, 4) == (N * 3, M)


@st.composite
def crossing(draw: st.DrawFn) -> Integer:
    """A position that depends on the loop variable by quotients, mostly by a single one."""
    start = draw(st.sampled_from([STEP, STEP + 3, STEP + ROW * 5, STEP + ROW * N]))
    found = start // draw(st.sampled_from([8, 9, 12, 15]))
    if draw(st.booleans()):
        found = found % draw(st.sampled_from([2, 3, 4]))
    return found * draw(st.sampled_from([1, 2, M])) + draw(st.sampled_from([ROW, N, ROW * M]))


@given(
    st.one_of(crossing(), positions()),
    st.sampled_from([2, 4, 8]),
    st.integers(1, 6),
    st.integers(1, 6),
)
@settings(max_examples=300, deadline=None)
def test_what_is_crossed_is_so_once(position: Integer, vector: int, n: int, m: int) -> None:
    """Before a step of the quotient all elements are the vector's first one, behind it its last."""
    division = crossed(position, STEP, vector)
    if division is None:
        return
    quotient = Integer.of_atom(division)
    for start in range(0, 48 * n - vector + 1, vector):
        at = [{"n": n, "m": m, "row": 1, "step": start + i} for i in range(vector)]
        values = [evaluate(position, each) for each in at]
        quotients = [evaluate(quotient, each) for each in at]
        assert quotients[-1] - quotients[0] <= 1
        for value, found in zip(values, quotients, strict=True):
            assert value == (values[0] if found == quotients[0] else values[-1])


@pytest.mark.parametrize(
    ("position", "vector", "is_crossed"),
    [
        (STEP // 9 % 4, 8, True),
        (STEP // 8, 8, True),
        ((STEP + 3) // 12 * 5 + ROW, 4, True),
        (STEP // 7, 8, False),  # two steps in a vector
        (STEP // N, 4, False),  # of a size that may be less
        (STEP % 9, 8, False),
        (STEP // 9 + STEP, 8, False),
        (STEP * 2 // 9, 4, False),
        (ROW, 4, False),
    ],
)
def test_quotients_of_two_values_are_found(
    position: Integer, vector: int, is_crossed: bool
) -> None:
    assert (crossed(position, STEP, vector) is not None) is is_crossed
