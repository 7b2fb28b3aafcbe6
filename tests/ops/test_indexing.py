"""Subscripts and the functions with several results, against PyTorch."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Attributes, AttributeValue, Node, TensorType
from fusegen.ir.integers import Integer
from fusegen.ops.indexing import CHUNK, SPLIT, Marker, Range, Subscript, index
from fusegen.ops.record import OperationError
from tests.ops.examples import fixed, placeholder, shapes
from tests.reference import evaluate


@st.composite
def subscripts(draw: st.DrawFn, shape: Sequence[int]) -> list[Subscript]:
    """Integers, ranges, new dims and at most one ellipsis, that select from the shape."""
    bound = st.one_of(st.none(), st.integers(-7, 7))
    count = draw(st.integers(0, len(shape)))
    gap = draw(st.integers(0, count))
    rest = len(shape) - count
    items: list[Subscript] = []
    for i in range(count):
        size = shape[i if i < gap else i + rest]
        if size and draw(st.booleans()):
            items.append(draw(st.integers(-size, size - 1)))
        else:
            items.append(Range(draw(bound), draw(bound), draw(st.integers(1, 3))))
    if gap < count or draw(st.booleans()):
        items.insert(gap, Marker.ELLIPSIS)
    if draw(st.booleans()):
        items.insert(draw(st.integers(0, len(items))), Marker.NEW_DIM)
    return items


def in_python(item: Subscript) -> object:
    """The subscript as Python has it."""
    if isinstance(item, Range):
        return slice(item.start, item.stop, item.step)
    return {Marker.ELLIPSIS: ..., Marker.NEW_DIM: None}[item] if isinstance(item, Marker) else item


@settings(max_examples=300)
@given(data=st.data(), shape=shapes())
def test_index_equals_pytorch(data: st.DataObject, shape: tuple[int, ...]) -> None:
    items = data.draw(subscripts(shape))
    x = placeholder(fixed(shape, DType.INT64))
    value = torch.arange(x.type.count.evaluate({})).reshape(shape)
    node = index(x, items)
    (result,) = evaluate((node,), {x: value})
    expected = value[tuple(in_python(item) for item in items)]
    assert torch.equal(result, expected)
    assert [size.evaluate({}) for size in node.shape] == list(expected.shape)


def symbolic(*sizes: int | str) -> Node:
    """A placeholder with named sizes."""
    shape = (Integer.symbol(s) if isinstance(s, str) else Integer.of(s) for s in sizes)
    return placeholder(TensorType(tuple(shape), DType.INT64))


@pytest.mark.parametrize(
    "items,expected",
    [
        ([Range(1, None)], slice(1, None)),
        ([Range(None, -1)], slice(None, -1)),
        ([Range(None, None, 2)], slice(None, None, 2)),
        ([Range(None, Integer.symbol("n") - 1)], slice(None, -1)),
        ([0], 0),
        ([-1], -1),
        ([Integer.symbol("n") - 1], -1),
    ],
)
def test_bounds_that_surely_lie_inside_a_symbolic_size(
    items: list[Subscript], expected: object
) -> None:
    x = symbolic("n", 3)
    node = index(x, items)
    for n in (1, 2, 7):
        value = torch.arange(3 * n).reshape(n, 3)
        (result,) = evaluate((node,), {x: value}, {"n": n})
        assert torch.equal(result, value[expected])
        assert [size.evaluate({"n": n}) for size in node.shape] == list(result.shape)


@pytest.mark.parametrize(
    "shape,items,message",
    [
        ((2, 3), [0, 0, 0], "3 subscripts are too many for int64[2, 3]"),
        ((2, 3), [Marker.ELLIPSIS, Marker.ELLIPSIS], "only once"),
        ((2, 3), [0, 3], "index 3 lies outside dim 1, whose size is 3"),
        ((2, 3), [-3], "index -1 lies outside dim 0"),
        (("n", 3), [1], "index 1 may lie outside dim 0, whose size is n"),
        (
            ("n", 3),
            [Range(0, 4)],
            "bound 4 of a slice may lie outside a dim of",
        ),
        ((2, 3), [Range(None, None, 0)], "step 0"),
    ],
)
def test_subscripts_refused(
    shape: tuple[int | str, ...], items: list[Subscript], message: str
) -> None:
    with pytest.raises(OperationError) as error:
        index(symbolic(*shape), items)
    assert message in error.value.message


@pytest.mark.parametrize("size", [0, 1, 5, 6])
@pytest.mark.parametrize("chunks", [1, 2, 4, 9])
def test_chunk_equals_pytorch(size: int, chunks: int) -> None:
    x = placeholder(fixed((2, size), DType.INT64))
    parts = CHUNK.expand((x,), Attributes.of(chunks=chunks, dim=-1))
    check_parts(x, parts, torch.chunk(torch.arange(2 * size).reshape(2, size), chunks, -1))


@pytest.mark.parametrize("size", [0, 5, 6])
@pytest.mark.parametrize("wanted", [1, 2, 7])
def test_split_equals_pytorch(size: int, wanted: int) -> None:
    x = placeholder(fixed((size, 2), DType.INT64))
    parts = SPLIT.expand((x,), Attributes.of(split_size_or_sections=wanted, dim=0))
    check_parts(x, parts, torch.split(torch.arange(2 * size).reshape(size, 2), wanted))


def test_split_into_sections() -> None:
    x = placeholder(fixed((2, 6), DType.INT64))
    sections: AttributeValue = (1, 0, 5)
    parts = SPLIT.expand((x,), Attributes.of(split_size_or_sections=sections, dim=1))
    check_parts(x, parts, torch.split(torch.arange(12).reshape(2, 6), [1, 0, 5], 1))


def check_parts(x: Node, parts: Sequence[Node], expected: Sequence[torch.Tensor]) -> None:
    """The parts of `arange` in the operand's shape."""
    shape = [size.evaluate({}) for size in x.shape]
    value = torch.arange(x.type.count.evaluate({})).reshape(shape)
    results = evaluate(parts, {x: value})
    assert len(results) == len(expected)
    for node, result, want in zip(parts, results, expected, strict=True):
        assert torch.equal(result, want)
        assert [size.evaluate({}) for size in node.shape] == list(want.shape)
