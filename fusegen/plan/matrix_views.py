"""Whether the operands of a matrix product are matrices in memory, with strides known at run time
or before."""

from __future__ import annotations

from fusegen.ir.integers import ONE, ZERO, Integer, Symbol
from fusegen.plan.buffers import BufferRole
from fusegen.plan.coordinates import flatten
from fusegen.plan.expressions import Load
from fusegen.plan.kernels.matrix_view import Major, MatrixView, run_stride
from fusegen.plan.kernels.product import ProductAxes


def operand_views(
    left: Load, right: Load, axes: ProductAxes
) -> tuple[MatrixView, MatrixView] | None:
    """The operands as matrices, or None where one of them is none."""
    left_view = _matrix_view(left, axes.batch, axes.row, axes.depth)
    right_view = _matrix_view(right, axes.batch, axes.column, axes.depth)
    return None if left_view is None or right_view is None else (left_view, right_view)


def _matrix_view(load: Load, batch: Integer, line: Integer, depth: Integer) -> MatrixView | None:
    """The load as a matrix, or None where its address is not linear in batch, line and depth or
    has neighbours in neither line nor depth."""
    axes = (batch.alone, line.alone, depth.alone)
    packed = _linear(load.offset, axes)
    if packed is None:
        return None
    _, _, line_stride, depth_stride = packed
    if depth_stride == ONE:
        major = Major.DEPTH
    elif line_stride == ONE:
        major = Major.LINE
    else:
        return None
    if load.buffer.role is not BufferRole.ARGUMENT:
        return MatrixView(load.buffer, *packed, major, ())
    runs: list[int] = []
    base = batch_stride = line_stride = depth_stride = ZERO
    first = 0
    for end in range(1, load.buffer.type.rank + 1):
        coordinate = flatten(load.coordinates[first:end], load.buffer.shape[first:end])
        parts = _linear(coordinate, axes)
        if parts is None:
            continue
        stride = Integer.of_atom(run_stride(len(runs)))
        base, batch_stride = base + parts[0] * stride, batch_stride + parts[1] * stride
        line_stride, depth_stride = (
            line_stride + parts[2] * stride,
            depth_stride + parts[3] * stride,
        )
        runs.append(end)
        first = end
    assert first == load.buffer.type.rank, "the whole offset is linear"
    return MatrixView(
        load.buffer, base, batch_stride, line_stride, depth_stride, major, tuple(runs)
    )


def moves_evenly(load: Load, axis: Integer) -> bool:
    """Whether the load's address grows by the same with each step of the loop variable, whatever
    the strides."""
    places = (load.offset, *load.coordinates)
    return all(factor(place, axis.alone) is not None for place in places)


def _linear(
    value: Integer, axes: tuple[Symbol, Symbol, Symbol]
) -> tuple[Integer, Integer, Integer, Integer] | None:
    """What is left at 0 and what multiplies each axis, if the value is linear in them."""
    rest = value
    factors = []
    for axis in axes:
        found = factor(rest, axis)
        if found is None:
            return None
        factors.append(found)
        rest = rest - found * Integer.of_atom(axis)
    batch, line, depth = factors
    return rest, batch, line, depth


def factor(value: Integer, symbol: Symbol) -> Integer | None:
    """What multiplies `symbol` in a sum in which it occurs only as a factor; None if elsewhere."""
    total = ZERO
    for monomial, coefficient in value.terms:
        term = Integer(((monomial, coefficient),))
        if symbol not in term.symbols():
            continue
        rest = tuple(atom for atom in monomial if atom != symbol)
        remaining = Integer(((rest, coefficient),))
        if len(rest) != len(monomial) - 1 or symbol in remaining.symbols():
            return None
        total = total + remaining
    return total
