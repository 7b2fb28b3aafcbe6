"""What a kernel computes for one element: a DAG of typed expressions over coordinates.

Expressions are interned by `Expressions`, so two equal ones are the same object and compare by
identity. `coordinates` are `Integer`s over the kernel's own loop variables.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Attributes
from fusegen.ir.integers import Integer, Symbol
from fusegen.ops.record import Monoid, Pointwise
from fusegen.plan.buffers import Buffer
from fusegen.plan.window import Windows


@dataclass(frozen=True, eq=False)
class Expression:
    """A scalar of `dtype`, held in the dtype's compute type; `name` suggests a variable's name."""

    dtype: DType
    name: str

    @property
    def arguments(self) -> tuple[Expression, ...]:
        """The expressions it is computed from."""
        return ()

    @property
    def symbols(self) -> frozenset[Symbol]:
        """The loop variables and sizes it depends on directly."""
        return frozenset()


@dataclass(frozen=True, eq=False)
class Load(Expression):
    """The element of `buffer` at `coordinates`; `offset` is its row-major position, which is the
    address where the buffer is contiguous."""

    buffer: Buffer
    coordinates: tuple[Integer, ...]
    offset: Integer

    @property
    def symbols(self) -> frozenset[Symbol]:
        return frozenset().union(self.offset.symbols(), *(c.symbols() for c in self.coordinates))


@dataclass(frozen=True, eq=False)
class WindowLoad(Load):
    """The element at `place`, (image, depth, *pixel), of what a convolution's kernel sees of images
    for a result whose sizes are `pixels`: zero unless each of the `guards` is in order, a least
    value, a coordinate, and what that stays below.
    """

    windows: Windows
    pixels: tuple[Integer, ...]
    place: tuple[Integer, ...]
    guards: tuple[tuple[Integer, Integer, Integer], ...]


@dataclass(frozen=True, eq=False)
class Literal(Expression):
    """A number."""

    value: bool | int | float


@dataclass(frozen=True, eq=False)
class Size(Expression):
    """The run-time value of a symbolic size."""

    size: Integer


@dataclass(frozen=True, eq=False)
class Position(Expression):
    """The place of an element in row-major order."""

    position: Integer

    @property
    def symbols(self) -> frozenset[Symbol]:
        return self.position.symbols()


@dataclass(frozen=True, eq=False)
class Compute(Expression):
    """A pointwise operation on its operands."""

    operation: Pointwise
    operands: tuple[Expression, ...]
    attributes: Attributes

    @property
    def arguments(self) -> tuple[Expression, ...]:
        return self.operands


@dataclass(frozen=True, eq=False)
class Select(Expression):
    """`below` where `coordinate < bound`, else `otherwise`; only the chosen one is evaluated."""

    coordinate: Integer
    bound: Integer
    below: Expression
    otherwise: Expression

    @property
    def arguments(self) -> tuple[Expression, ...]:
        return (self.below, self.otherwise)

    @property
    def symbols(self) -> frozenset[Symbol]:
        return self.coordinate.symbols() | self.bound.symbols()


@dataclass(frozen=True, eq=False)
class Reduced(Expression):
    """The result of a reduction of `operand` over the kernel's columns, one for each row."""

    monoid: Monoid
    operand: Expression

    @property
    def arguments(self) -> tuple[Expression, ...]:
        return (self.operand,)


@dataclass(frozen=True, eq=False)
class PartialStates(Expression):
    """As a `Reduced` operand: the states another kernel left for each row, to be merged.

    `offset` is the state's position in `buffer`; `monoid` and `accumulator` give its struct.
    """

    buffer: Buffer
    offset: Integer
    monoid: Monoid
    accumulator: DType

    @property
    def symbols(self) -> frozenset[Symbol]:
        return self.offset.symbols()


@dataclass(frozen=True, eq=False)
class Accumulator(Expression):
    """The matrix product's element that the thread holds or finds in its tile; `number` tells which
    product's, in a kernel of several."""

    number: int = 0


@dataclass(frozen=True, eq=False)
class Loaded(Expression):
    """The element of a product's operand as it has come from memory, in the operand's prologue."""


E = TypeVar("E", bound=Expression)


@dataclass
class Expressions:
    """Interns expressions: the same kind with the same fields is the same object."""

    known: dict[Hashable, Expression] = field(default_factory=dict)

    def intern(self, expression: E) -> E:
        """`expression`, or the equal one made before it (names do not count)."""
        fields = (v for k, v in vars(expression).items() if k != "name")
        key = (type(expression), *(_key(value) for value in fields))
        found = self.known.setdefault(key, expression)
        assert isinstance(found, type(expression))
        return found


def _key(value: object) -> Hashable:
    if isinstance(value, float):
        return ("float", value.hex())  # tells -0.0 from 0.0, and a NaN is one key
    if isinstance(value, (bool, int)):
        return (type(value).__name__, value)
    if isinstance(value, tuple):
        return tuple(_key(item) for item in value)
    assert isinstance(value, Hashable)
    return value


def walk(roots: tuple[Expression, ...]) -> Iterator[Expression]:
    """Every expression below the roots, arguments before users, each once."""
    done: set[Expression] = set()
    stack: list[tuple[Expression, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        expression, visited = stack.pop()
        if visited:
            if expression not in done:
                done.add(expression)
                yield expression
        elif expression not in done:
            stack.append((expression, True))
            stack.extend((argument, False) for argument in reversed(expression.arguments))


def certain_loads(roots: tuple[Expression, ...]) -> list[Load]:
    """The loads below `roots`, but for those that only one side of a selection needs, which may lie
    outside their tensors, and those of earlier phases."""
    found: list[Load] = []
    seen: set[Expression] = set()
    stack = list(reversed(roots))
    while stack:
        expression = stack.pop()
        if expression in seen:
            continue
        seen.add(expression)
        if isinstance(expression, Load):
            found.append(expression)
        if not isinstance(expression, (Select, Reduced)):
            stack.extend(reversed(expression.arguments))
    return found
