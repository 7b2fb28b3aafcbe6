"""Operands of a matrix product as matrices in memory, with strides known at run time or before."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from fusegen.ir.integers import ONE, ZERO, Integer, Symbol
from fusegen.plan.buffers import Buffer, BufferRole
from fusegen.plan.coordinates import flatten
from fusegen.plan.expressions import Load


class Major(Enum):
    """Which neighbours of an operand are neighbours in memory; a line is a row of the left operand
    or a column of the right one."""

    DEPTH = "those in depth"
    LINE = "those of neighbouring lines"


@dataclass(frozen=True)
class MatrixView:
    """An operand as matrices in memory: element (batch, line, depth) lies at `base +
    batch * batch_stride + line * line_stride + depth * depth_stride`, in elements.

    A tensor handed in may have any strides. Its dims are then taken in runs, each of which must
    move through memory like one dim; `runs` are the ends of the runs, and the symbol
    `run_stride(i)` stands for the i-th one's stride. Other buffers are contiguous and have no runs.
    `major` is where the neighbours are if the tensor is contiguous.
    """

    buffer: Buffer
    base: Integer
    batch_stride: Integer
    line_stride: Integer
    depth_stride: Integer
    major: Major
    runs: tuple[int, ...]

    @property
    def inner_stride(self) -> Integer:
        """The stride that must be 1."""
        return self.depth_stride if self.major is Major.DEPTH else self.line_stride

    @property
    def outer_stride(self) -> Integer:
        """The stride from one run of neighbours to the next."""
        return self.line_stride if self.major is Major.DEPTH else self.depth_stride


def run_stride(run: int) -> Symbol:
    """What stands for the stride of a view's i-th run of dims."""
    return Symbol(f"stride of run {run}")


def matrix_view(load: Load, batch: Integer, line: Integer, depth: Integer) -> MatrixView | None:
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


def _linear(
    value: Integer, axes: tuple[Symbol, Symbol, Symbol]
) -> tuple[Integer, Integer, Integer, Integer] | None:
    """What is left at 0 and what multiplies each axis, if the value is linear in them."""
    rest = value
    factors = []
    for axis in axes:
        factor = _factor(rest, axis)
        if factor is None:
            return None
        factors.append(factor)
        rest = rest - factor * Integer.of_atom(axis)
    batch, line, depth = factors
    return rest, batch, line, depth


def _factor(value: Integer, symbol: Symbol) -> Integer | None:
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
