"""Whether the operands of a matrix product are matrices in memory, with strides known at run time
or before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fusegen.ir.integers import ONE, ZERO, Atom, Integer, Symbol, maximum
from fusegen.plan.buffers import Buffer, BufferRole
from fusegen.plan.coordinates import flatten, unflatten
from fusegen.plan.expressions import Load, WindowLoad
from fusegen.plan.kernels.matrix_view import (
    BatchDim,
    Major,
    MatrixView,
    WindowView,
    run_stride,
)
from fusegen.plan.kernels.product import ProductAxes

# Of the five dims that a tensor map knows, beside those of a matrix.
MOST_BATCH_DIMS = 3


def operand_views(
    left: Load, right: Load, axes: ProductAxes
) -> tuple[MatrixView, MatrixView] | None:
    """The operands as matrices, or None where one of them is none."""
    left_view = matrix_view(left, axes.batch, axes.row, axes.depth)
    right_view = matrix_view(right, axes.batch, axes.column, axes.depth)
    return None if left_view is None or right_view is None else (left_view, right_view)


def matrix_view(load: Load, batch: Integer, line: Integer, depth: Integer) -> MatrixView | None:
    """The load as a matrix, or None where its address is not linear in dims of batches, line and
    depth or has neighbours in neither line nor depth. Dims of batches that are more than a few must
    be one for all."""
    if isinstance(load, WindowLoad) and load.guards:
        return None
    for are_apart in (True, False):
        axes = _Axes(batch.alone, line.alone, depth.alone, are_apart)
        view = _view_along(axes, load)
        if view is not None and len(view.batches) <= MOST_BATCH_DIMS:
            return view
    return None


def _view_along(axes: _Axes, load: Load) -> MatrixView | None:
    packed = axes.linear(load.offset)
    if packed is None:
        return None
    if packed.depth == ONE:
        major = Major.DEPTH
    elif packed.line == ONE:
        major = Major.LINE
    else:
        return None
    if load.buffer.role is not BufferRole.ARGUMENT:
        return packed.view(load.buffer, major, ())
    runs: list[int] = []
    total = _Linear(ZERO, {}, ZERO, ZERO)
    first = 0
    for end in range(1, load.buffer.type.rank + 1):
        coordinate = flatten(load.coordinates[first:end], load.buffer.shape[first:end])
        part = axes.linear(coordinate)
        if part is None:
            continue
        total = total.plus(part, Integer.of_atom(run_stride(len(runs))))
        runs.append(end)
        first = end
    assert first == load.buffer.type.rank, "the whole offset is linear"
    return total.view(load.buffer, major, tuple(runs))


def window_view(load: WindowLoad, line: Integer, axes: ProductAxes) -> WindowView | None:
    """An operand as windows whose elements the product reads in their own order, or None where it
    does not: its lines are the pixels of all images, or of that of the product's batch."""
    images, pixels = load.buffer.shape[0], load.pixels
    image, *pixel = unflatten(line, (images, *pixels))
    if load.place == (image, axes.depth, *pixel):
        return WindowView(load.buffer, load.windows, pixels, None)
    (image,) = unflatten(axes.batch, (images,))
    if load.place == (image, axes.depth, *unflatten(line, pixels)):
        return WindowView(load.buffer, load.windows, pixels, image)
    return None


def moves_evenly(load: Load, axis: Integer) -> bool:
    """Whether the load's address grows by the same with each step of the loop variable, whatever
    the strides."""
    if isinstance(load, WindowLoad) and load.guards:
        return False
    places = (load.offset, *load.coordinates)
    return all(factor(place, axis.alone) is not None for place in places)


@dataclass(frozen=True)
class _Linear:
    """What is left of an address where all axes are 0, and what multiplies each; `batches` has the
    batch itself or what tells its place in one of several dims."""

    rest: Integer
    batches: Mapping[Atom, Integer]
    line: Integer
    depth: Integer

    def plus(self, other: _Linear, stride: Integer) -> _Linear:
        """The sum with `stride` times another address."""
        batches = dict(self.batches)
        for atom, each in other.batches.items():
            batches[atom] = batches.get(atom, ZERO) + each * stride
        return _Linear(
            self.rest + other.rest * stride,
            batches,
            self.line + other.line * stride,
            self.depth + other.depth * stride,
        )

    def view(self, buffer: Buffer, major: Major, runs: tuple[int, ...]) -> MatrixView:
        batches = tuple(
            BatchDim(index, maximum(index) + 1, stride)
            for index, stride in ((Integer.of_atom(a), s) for a, s in self.batches.items())
        )
        return MatrixView(buffer, self.rest, batches, self.line, self.depth, major, runs)


@dataclass(frozen=True)
class _Axes:
    """The loop variables of an operand; quotients and remainders of the batch may have strides of
    their own where batches `are_apart`."""

    batch: Symbol
    line: Symbol
    depth: Symbol
    are_apart: bool

    def linear(self, value: Integer) -> _Linear | None:
        """The value as a sum of multiples of each axis, if it is one."""
        line, depth = factor(value, self.line), factor(value, self.depth)
        if line is None or depth is None:
            return None
        rest = value - line * Integer.of_atom(self.line) - depth * Integer.of_atom(self.depth)
        batches = {}
        for atom in self._batch_atoms(rest):
            found = factor(rest, atom)
            if found is None or self.batch in found.symbols():
                return None
            batches[atom] = found
            rest = rest - found * Integer.of_atom(atom)
        return _Linear(rest, batches, line, depth)

    def _batch_atoms(self, value: Integer) -> tuple[Atom, ...]:
        if not self.are_apart:
            return (self.batch,) if self.batch in value.symbols() else ()
        atoms = dict.fromkeys(atom for monomial, _ in value.terms for atom in monomial)
        return tuple(atom for atom in atoms if self.batch in Integer.of_atom(atom).symbols())


def factor(value: Integer, atom: Atom) -> Integer | None:
    """What multiplies `atom` in a sum in which it occurs only as a factor; None if elsewhere, which
    for a quotient or a remainder is as another power."""
    total = ZERO
    for monomial, coefficient in value.terms:
        term = Integer(((monomial, coefficient),))
        if atom not in (term.symbols() if isinstance(atom, Symbol) else monomial):
            continue
        rest = tuple(other for other in monomial if other != atom)
        remaining = Integer(((rest, coefficient),))
        if len(rest) != len(monomial) - 1 or atom in remaining.symbols():
            return None
        total = total + remaining
    return total
