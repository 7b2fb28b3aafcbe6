"""Coordinates in a shape, and positions in row-major order."""

from __future__ import annotations

from fusegen.ir.graph import Shape
from fusegen.ir.integers import ONE, ZERO, Integer


def strides_of(shape: Shape) -> tuple[Integer, ...]:
    """The strides, in elements, of a contiguous tensor."""
    strides = []
    step = ONE
    for size in reversed(shape):
        strides.append(step)
        step = step * size
    return tuple(reversed(strides))


def flatten(coordinates: tuple[Integer, ...], shape: Shape) -> Integer:
    """The row-major position of an element."""
    return sum((c * s for c, s in zip(coordinates, strides_of(shape), strict=True)), start=ZERO)


def unflatten(position: Integer, shape: Shape) -> tuple[Integer, ...]:
    """The coordinates of the element at a row-major position; dims of size 1 give 0, as do all
    dims where there is no element."""
    if ZERO in shape:
        return (ZERO,) * len(shape)
    return tuple(
        ZERO if size == ONE else (position // step) % size
        for size, step in zip(shape, strides_of(shape), strict=True)
    )


def broadcast(coordinates: tuple[Integer, ...], shape: Shape) -> tuple[Integer, ...]:
    """The coordinates in an operand of `shape` that broadcasts to where `coordinates` point."""
    aligned = coordinates[len(coordinates) - len(shape) :]
    return tuple(ZERO if size == ONE else c for c, size in zip(aligned, shape, strict=True))
