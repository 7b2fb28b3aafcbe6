"""Index arithmetic as the planner uses it, against plain numbers.

A wrong simplification would read the wrong element, so expressions are drawn at random: positions
in shapes with symbolic sizes, split, joined, divided and substituted, and whole chains of views.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fusegen.ir.graph import Node
from fusegen.ir.integers import Integer, Symbol, is_below, maximum
from fusegen.ops import build
from fusegen.plan.buffers import Buffer, BufferRole
from fusegen.plan.coordinates import unflatten
from fusegen.plan.evaluate import Evaluator
from fusegen.plan.expressions import Expression, Expressions, Load, Select
from tests.emulated import value
from tests.plan.numeric import evaluate

NAMES = ("n", "m", "k")
N, M, K = (Integer.symbol(name) for name in NAMES)
SIZES = st.fixed_dictionaries({name: st.integers(1, 4) for name in NAMES})

sizes = st.sampled_from(
    [*map(Integer.of, (1, 2, 3, 4, 6, 8)), N, M, K, N * 2, N * M, M * 4, N + 1, N + M, N * 2 + M]
)


@st.composite
def positions(draw: st.DrawFn) -> tuple[Integer, Mapping[str, Integer]]:
    """An expression over coordinates, and the coordinates' extents by name."""
    extents = {name: draw(sizes) for name in ("i", "j", "l")}
    coordinates = [Integer.symbol(name, extent) for name, extent in extents.items()]
    found = draw(st.sampled_from(coordinates))
    for _ in range(draw(st.integers(0, 4))):
        other = draw(
            st.one_of(st.sampled_from(coordinates), sizes, st.integers(0, 5).map(Integer.of))
        )
        step = draw(st.sampled_from(["+", "*", "//", "%"]))
        if step in ("//", "%"):
            by = draw(sizes)
            found = found // by if step == "//" else found % by
        else:
            found = found + other if step == "+" else found * other
    return found, extents


def points(extents: Mapping[str, Integer], given: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Every combination of the coordinates' values, a few dozen of each at most."""
    ranges = [range(min(evaluate(extent, given), 9)) for extent in extents.values()]
    for chosen in itertools.product(*ranges):
        yield {**given, **dict(zip(extents, chosen, strict=True))}


@settings(max_examples=1500)
@given(drawn=positions(), by=sizes, given_sizes=SIZES)
def test_quotients_and_remainders(
    drawn: tuple[Integer, Mapping[str, Integer]], by: Integer, given_sizes: dict[str, int]
) -> None:
    position, extents = drawn
    quotient, remainder = position // by, position % by
    for at in points(extents, given_sizes):
        whole, divisor = evaluate(position, at), evaluate(by, at)
        assert evaluate(quotient, at) == whole // divisor
        assert evaluate(remainder, at) == whole % divisor


@settings(max_examples=800)
@given(drawn=positions(), limit=sizes, given_sizes=SIZES)
def test_what_is_proved_below_a_limit_is(
    drawn: tuple[Integer, Mapping[str, Integer]], limit: Integer, given_sizes: dict[str, int]
) -> None:
    position, extents = drawn
    bound, proved = maximum(position), is_below(position, limit)
    for at in points(extents, given_sizes):
        assert 0 <= evaluate(position, at) <= evaluate(bound, at)
        assert not proved or evaluate(position, at) < evaluate(limit, at)


@settings(max_examples=800)
@given(drawn=positions(), inner=positions(), given_sizes=SIZES)
def test_substituted_coordinates(
    drawn: tuple[Integer, Mapping[str, Integer]],
    inner: tuple[Integer, Mapping[str, Integer]],
    given_sizes: dict[str, int],
) -> None:
    position, extents = drawn
    # A coordinate is only ever replaced by something inside its extent.
    replaced = Symbol("i", extents["i"])
    moved = inner[0].substitute(
        {Symbol(n, e): Integer.symbol(f"{n}2", e) for n, e in inner[1].items()}
    )
    inside = moved % extents["i"]
    result = position.substitute({replaced: inside})
    renamed = {f"{name}2": extent for name, extent in inner[1].items()}
    rest = {name: extent for name, extent in extents.items() if name != "i"}
    for at in itertools.islice(points({**rest, **renamed}, given_sizes), 300):
        expected = evaluate(position, {**at, "i": evaluate(inside, at)})
        assert evaluate(result, at) == expected


@settings(max_examples=500)
@given(first=positions(), second=positions(), third=positions())
def test_equal_sums_and_products_have_one_form(
    first: tuple[Integer, object], second: tuple[Integer, object], third: tuple[Integer, object]
) -> None:
    a, b, c = first[0], second[0], third[0]
    assert a * b == b * a and a + b == b + a
    assert (a + b) + c == a + (b + c)


@st.composite
def view_chains(draw: st.DrawFn) -> Node:
    """Views and joins over inputs of symbolic shape."""
    shapes = [("n", 4), ("n", "m", 2), (3, "m"), (2, "n", 3), ("k", 1, "n"), (6,), (4, "n", "m", 2)]
    found = value("x", *draw(st.sampled_from(shapes)))
    for _ in range(draw(st.integers(1, 5))):
        found = draw(viewed(found))
    return found


@st.composite
def viewed(draw: st.DrawFn, x: Node) -> Node:
    rank = x.type.rank
    dim = draw(st.integers(0, rank - 1))
    size = x.shape[dim]
    kind = draw(st.sampled_from(["permute", "merge", "split", "slice", "expand", "cat", "flatten"]))
    if kind == "permute":
        return build.permute(x, draw(st.permutations(range(rank))))
    if kind == "merge" and rank > 1:
        dim = min(dim, rank - 2)
        merged = x.shape[dim] * x.shape[dim + 1]
        return build.reshape(x, (*x.shape[:dim], merged, *x.shape[dim + 2 :]))
    if kind == "split" and size.constant is not None and size.constant % 2 == 0:
        parts = draw(st.sampled_from([(2, size // 2), (size // 2, 2)]))
        return build.reshape(x, (*x.shape[:dim], *parts, *x.shape[dim + 1 :]))
    if kind == "slice" and size.constant is not None and size.constant > 1:
        return build.take(x, dim, 1, size, draw(st.integers(1, 2)))
    if kind == "expand":
        return build.expand(
            build.reshape(x, (1, *x.shape)), (draw(st.sampled_from([N, 2])), *x.shape)
        )
    if kind == "cat":
        return build.concatenate([x, build.permute(x, range(rank)), x], dim)
    if kind == "flatten":
        return build.reshape(x, (x.type.count,))
    return x


def chosen(expression: Expression, at: Mapping[str, int]) -> Load:
    """The load that a selection comes down to."""
    while isinstance(expression, Select):
        below = evaluate(expression.coordinate, at) < evaluate(expression.bound, at)
        expression = expression.below if below else expression.otherwise
    assert isinstance(expression, Load)
    return expression


def as_numpy(node: Node, given: Mapping[str, int]) -> np.ndarray:
    """The view of the input's positions, by NumPy."""
    if not node.operands:
        shape = [evaluate(size, given) for size in node.shape]
        return np.arange(int(np.prod(shape))).reshape(shape)
    operands = [as_numpy(operand, given) for operand in node.operands]
    shape = tuple(evaluate(size, given) for size in node.shape)
    name, attributes = node.operation.name, node.attributes
    if name == "permute":
        return operands[0].transpose(attributes.integers("dims"))
    if name == "expand":
        return np.broadcast_to(operands[0], shape)
    if name == "reshape":
        return operands[0].reshape(shape)
    if name == "cat":
        return np.concatenate(operands, attributes.integer("dim"))
    assert name == "slice"
    bounds = (evaluate(attributes.sizes(part)[0], given) for part in ("start", "stop"))
    cut = slice(*bounds, attributes.integer("step"))
    return operands[0][(slice(None),) * attributes.integer("dim") + (cut,)]


@settings(max_examples=1000)
@given(view=view_chains(), given_sizes=SIZES)
def test_chains_of_views_find_the_same_elements_as_numpy(
    view: Node, given_sizes: dict[str, int]
) -> None:
    source = view
    while source.operands:
        source = source.operands[0]
    buffer = Buffer("x", BufferRole.ARGUMENT, source.type)
    index = Integer.symbol("index", view.type.count)
    evaluator = Evaluator({source: buffer}, Expressions())
    expression = evaluator.at(view, unflatten(index, view.shape))
    expected = as_numpy(view, given_sizes)
    strides = np.cumprod([1, *reversed([evaluate(s, given_sizes) for s in source.shape])])[-2::-1]
    for position, element in enumerate(expected.reshape(-1)[:200]):
        at = {**given_sizes, "index": position}
        load = chosen(expression, at)
        assert evaluate(load.offset, at) == element
        assert (
            sum(evaluate(c, at) * s for c, s in zip(load.coordinates, strides, strict=True))
            == element
        )
