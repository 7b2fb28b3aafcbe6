"""Coordinates and row-major positions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusegen.ir.integers import ZERO, Integer
from fusegen.plan.coordinates import broadcast, flatten, strides_of, unflatten

shapes = st.lists(st.integers(1, 6), max_size=4).map(tuple)


def constants(*values: int) -> tuple[Integer, ...]:
    return tuple(Integer.of(v) for v in values)


@given(shape=shapes, data=st.data())
def test_unflatten_is_the_opposite_of_flatten(shape: tuple[int, ...], data: st.DataObject) -> None:
    position = data.draw(st.integers(0, int(np.prod(shape)) - 1))
    coordinates = unflatten(Integer.of(position), constants(*shape))
    assert coordinates == constants(*map(int, np.unravel_index(position, shape)))
    assert flatten(coordinates, constants(*shape)) == Integer.of(position)


def test_symbolic_coordinates_flatten_to_the_position_itself() -> None:
    batch, channels = Integer.symbol("batch"), Integer.of(6)
    shape = (batch, channels, Integer.symbol("width"))
    index = Integer.symbol("index", batch * channels * shape[2])
    assert flatten(unflatten(index, shape), shape) == index


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 5)])
def test_a_shape_without_elements_has_coordinates(shape: tuple[int, ...]) -> None:
    index = Integer.symbol("index", ZERO)
    assert unflatten(index, constants(*shape)) == (ZERO,) * len(shape)


def test_strides_are_in_elements() -> None:
    n = Integer.symbol("n")
    assert strides_of((n, Integer.of(3), n)) == (n * 3, n, Integer.of(1))


def test_broadcast_aligns_at_the_last_dim() -> None:
    i, j = Integer.symbol("i", 4), Integer.symbol("j", 5)
    assert broadcast((i, j), constants(5)) == (j,)
    assert broadcast((i, j), constants(4, 1)) == (i, ZERO)
    assert broadcast((i, j), ()) == ()
