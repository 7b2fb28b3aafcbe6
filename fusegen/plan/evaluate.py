"""From graph nodes to kernel expressions: what one element of a value is made of.

Views cost nothing here: they only change the coordinates at which their operand is evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Attributes, Node
from fusegen.ir.integers import ONE, Integer, product
from fusegen.ops.pointwise.arithmetic import ADD, DIVIDE, MUL, SUB
from fusegen.ops.pointwise.casting import AS_STORED, WIDEN, widens
from fusegen.ops.record import (
    CONSTANT,
    SIZE_VALUE,
    Concatenation,
    Monoid,
    Pointwise,
    Positions,
    Reduction,
    Reshape,
    View,
)
from fusegen.plan.buffers import Buffer
from fusegen.plan.coordinates import broadcast, flatten, unflatten
from fusegen.plan.expressions import (
    Accumulator,
    Compute,
    Expression,
    Expressions,
    Literal,
    Load,
    PartialStates,
    Position,
    Reduced,
    Select,
    Size,
)
from fusegen.plan.window import Windows
from fusegen.plan.window_loads import window_load

Coordinates = tuple[Integer, ...]
Point = tuple[Node, Coordinates]


class NotInKernel(Exception):
    """A value cannot be computed inside the kernel; the text says why, for the plan's reader."""


@dataclass(frozen=True)
class Domain:
    """The loop variables of a kernel with reductions: each row reduces its columns.

    `row` and `column` are coordinates over `rows` and `columns`.
    """

    row: Integer
    column: Integer
    rows: Integer
    columns: Integer

    @staticmethod
    def of(rows: Integer, columns: Integer) -> Domain:
        """A domain with its loop variables named `row` and `column`."""
        return Domain(Integer.symbol("row", rows), Integer.symbol("column", columns), rows, columns)


@dataclass
class Evaluator:
    """Evaluates nodes at coordinates.

    `buffers` are the values that stand in memory. With a `domain`, reductions are computed in the
    kernel, provided that each is asked for at the row it belongs to. `products` are the nodes of
    which the thread holds an element each, at these coordinates. `states` are reductions of which
    another kernel left partial states. With `two_pass`, squared deviations are summed in a second
    pass over the row, after its mean, instead of by Welford's recurrence. What is made from a value
    that is `rounded` where it is stored is made from the rounded one.
    """

    buffers: Mapping[Node, Buffer]
    expressions: Expressions
    domain: Domain | None = None
    two_pass: bool = True
    products: Mapping[Node, Coordinates] = field(default_factory=dict)
    states: Mapping[Node, PartialStates] = field(default_factory=dict)
    rounded: frozenset[Node] = frozenset()
    done: dict[Point, Expression] = field(default_factory=dict)

    def at(self, node: Node, coordinates: Coordinates) -> Expression:
        """The element of `node` at `coordinates`; raises `NotInKernel` where that can't be."""
        target = (node, coordinates)
        stack = [target]
        while stack:
            point = stack[-1]
            if point in self.done:
                stack.pop()
                continue
            needed = self._needs(*point)
            missing = [p for p in needed if p not in self.done]
            if missing:
                stack.extend(reversed(missing))
                continue
            made = self._make(*point, tuple(self._as_read(p) for p in needed))
            self.done[point] = self.expressions.intern(made)
            stack.pop()
        return self.done[target]

    def read(self, node: Node, coordinates: Coordinates) -> Expression:
        """The element as what is made from it sees it: as it is stored, if it is."""
        self.at(node, coordinates)
        return self._as_read((node, coordinates))

    def _as_read(self, point: Point) -> Expression:
        node, made = point[0], self.done[point]
        if node not in self.rounded or node in self.buffers:
            return made
        name = f"{node.name or node.operation.name}_stored"
        dtype = Attributes.of(dtype=node.dtype)
        return self.expressions.intern(Compute(node.dtype, name, AS_STORED, (made,), dtype))

    def _needs(self, node: Node, coordinates: Coordinates) -> tuple[Point, ...]:
        if node in self.buffers or node in self.products or node in self.states:
            return ()
        operation = node.operation
        if isinstance(operation, Pointwise):
            return tuple((o, broadcast(coordinates, o.shape)) for o in node.operands)
        if isinstance(operation, View):
            (operand,) = node.operands
            return ((operand, operation.source(node.attributes, operand.shape, coordinates)),)
        if isinstance(operation, Reshape):
            (operand,) = node.operands
            return ((operand, unflatten(flatten(coordinates, node.shape), operand.shape)),)
        if isinstance(operation, Concatenation):
            return self._pieces(node, coordinates)
        if isinstance(operation, Reduction) and self.domain is not None:
            self._check_row(node, coordinates)
            return ((node.operands[0], self.domain_coordinates(node)),)
        return ()

    def _make(
        self, node: Node, coordinates: Coordinates, operands: tuple[Expression, ...]
    ) -> Expression:
        operation = node.operation
        name = node.name or operation.name
        if node in self.buffers:
            buffer = self.buffers[node]
            position = flatten(coordinates, node.shape)
            where = coordinates if buffer.shape == node.shape else unflatten(position, buffer.shape)
            return Load(buffer.dtype, buffer.name, buffer, where, position)
        if node in self.products:
            if coordinates != self.products[node]:
                raise NotInKernel(f"{name} is read at another element than the thread's own")
            return Accumulator(node.dtype, name, list(self.products).index(node))
        if node in self.states:
            self._check_row(node, coordinates)
            assert isinstance(operation, Reduction)
            return Reduced(node.dtype, name, operation.monoid, self.states[node])
        if isinstance(operation, Windows):
            (images,) = node.operands
            if images not in self.buffers:
                raise NotInKernel(f"what the {name} are over is no value in memory")
            return window_load(operation, self.buffers[images], node.type, coordinates)
        if operation is CONSTANT:
            value = node.attributes["value"]
            assert isinstance(value, (bool, int, float))
            return Literal(node.dtype, "constant", value)
        if operation is SIZE_VALUE:
            return Size(node.dtype, "size", node.attributes.sizes("size")[0])
        if isinstance(operation, Positions):
            return Position(node.dtype, name, flatten(coordinates, node.shape))
        if widens(node):  # however it was written, so that it is computed once
            return Compute(node.dtype, node.name or WIDEN.name, WIDEN, operands, Attributes())
        if isinstance(operation, Pointwise):
            return Compute(node.dtype, name, operation, operands, node.attributes)
        if isinstance(operation, (View, Reshape)):
            return operands[0]
        if isinstance(operation, Concatenation):
            return self._choose(node, coordinates, operands)
        if isinstance(operation, Reduction) and self.domain is not None:
            if operation.monoid is Monoid.MEAN and self.two_pass:
                return self._mean(name, operands[0], self.domain.columns)
            if operation.monoid is Monoid.MOMENTS and self.two_pass:
                return self._squared_deviations(name, operands[0], self.domain.columns)
            return Reduced(node.dtype, name, operation.monoid, operands[0])
        raise NotInKernel(f"{name} is computed by another kernel")

    def _mean(self, name: str, value: Expression, columns: Integer) -> Expression:
        """The rounded mean, and the mean of the deviations from it, which takes off its error."""
        first, deviation = self._deviation(value, columns)
        total = self.expressions.intern(Reduced(value.dtype, "rest", Monoid.SUM, deviation))
        rest = self._computed("rest", DIVIDE, total, self._count(value.dtype, columns))
        return self._computed(name, ADD, first, rest)

    def _squared_deviations(self, name: str, value: Expression, columns: Integer) -> Reduced:
        _, deviation = self._deviation(value, columns)
        squared = self._computed("squared", MUL, deviation, deviation)
        return Reduced(value.dtype, name, Monoid.SUM, squared)

    def _deviation(self, value: Expression, columns: Integer) -> tuple[Expression, Expression]:
        """The rounded mean, and the value's deviation from it."""
        total = self.expressions.intern(Reduced(value.dtype, "total", Monoid.SUM, value))
        mean = self._computed("mean", DIVIDE, total, self._count(value.dtype, columns))
        return mean, self._computed("deviation", SUB, value, mean)

    def _count(self, dtype: DType, columns: Integer) -> Expression:
        if columns.constant is None:
            return self.expressions.intern(Size(dtype, "count", columns))
        return self.expressions.intern(Literal(dtype, "count", columns.constant))

    def _computed(self, name: str, operation: Pointwise, *operands: Expression) -> Expression:
        made = Compute(operands[0].dtype, name, operation, operands, Attributes())
        return self.expressions.intern(made)

    def domain_coordinates(self, node: Node) -> Coordinates:
        """Where the kernel's row and column stand in the operand of the reduction `node`."""
        assert self.domain is not None
        (operand,) = node.operands
        dims = node.attributes.integers("dims")
        kept = [i for i in range(operand.type.rank) if i not in dims]
        rows = unflatten(self.domain.row, tuple(operand.shape[i] for i in kept))
        by_dim = dict(zip(kept, rows, strict=True))
        # Dims side by side are one coordinate first, so that their elements are seen to be one run.
        runs = _runs(dims)
        sizes = tuple(product(operand.shape[i] for i in run) for run in runs)
        for run, place in zip(runs, unflatten(self.domain.column, sizes), strict=True):
            columns = unflatten(place, tuple(operand.shape[i] for i in run))
            by_dim |= zip(run, columns, strict=True)
        return tuple(by_dim[i] for i in range(operand.type.rank))

    def _check_row(self, node: Node, coordinates: Coordinates) -> None:
        assert self.domain is not None
        name = node.name or node.operation.name
        if node.type.count != self.domain.rows:
            raise NotInKernel(f"{name} has other rows than the kernel")
        columns = node.operands[0].type.count
        if node not in self.states and columns != self.domain.rows * self.domain.columns:
            raise NotInKernel(f"{name} has other columns than the kernel")
        if self.domain.rows != ONE and flatten(coordinates, node.shape) != self.domain.row:
            raise NotInKernel(f"{name} is needed at another row than the kernel's own")

    def _pieces(self, node: Node, coordinates: Coordinates) -> tuple[Point, ...]:
        dim = node.attributes.integer("dim")
        start = Integer.of(0)
        pieces = []
        for operand in node.operands:
            shifted = tuple(c - start if i == dim else c for i, c in enumerate(coordinates))
            pieces.append((operand, shifted))
            start = start + operand.shape[dim]
        return tuple(pieces)

    def _choose(
        self, node: Node, coordinates: Coordinates, pieces: tuple[Expression, ...]
    ) -> Expression:
        dim = node.attributes.integer("dim")
        bounds = []
        end = Integer.of(0)
        for operand in node.operands:
            end = end + operand.shape[dim]
            bounds.append(end)
        chosen = pieces[-1]
        for piece, bound in zip(reversed(pieces[:-1]), reversed(bounds[:-1]), strict=True):
            select = Select(node.dtype, node.operation.name, coordinates[dim], bound, piece, chosen)
            chosen = self.expressions.intern(select)
        return chosen


def accumulator_dtype(monoid_operand: DType) -> DType:
    """The dtype a reduction accumulates in: float32 for the 16-bit floats, int64 for integers."""
    if monoid_operand.is_float:
        return monoid_operand.compute
    return DType.BOOL if monoid_operand is DType.BOOL else DType.INT64


def _runs(dims: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Dims in groups of neighbours."""
    runs: list[tuple[int, ...]] = []
    for dim in dims:
        if runs and runs[-1][-1] == dim - 1:
            runs[-1] += (dim,)
        else:
            runs.append((dim,))
    return runs
