"""Where what is divided by may be 0, for all that is known of it, or what multiplies an infinity,
or an exponent a whole number, or an angle that of a pole, or two numbers equal.

As far as a divisor may be off, a kernel's is somewhere between what errors move it to. If that lies
on both sides of 0, a quotient has no bound: however many samples there are, a kernel's divisor may
be nearer to 0 than that of any. Nor has one by the greatest or least of zeros of both signs, which
may be either of them. So it is with a product of an infinity, which is NaN only where the other
factor is 0 itself, with a power of a negative number, which is NaN but where the exponent is whole,
and with a tangent. And so it is with what is true of a single number: whether it is 0, or another.
A number that is 0 already, or that no error moves across it, is none of
these.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Node
from fusegen.ops.construct import is_number
from fusegen.ops.pointwise.arithmetic import (
    DIVIDE,
    FLOOR_DIVIDE,
    MUL,
    POWER,
    RECIPROCAL,
    REMAINDER,
    TRUNCATE_DIVIDE,
)
from fusegen.ops.pointwise.casting import CAST
from fusegen.ops.pointwise.functions import TAN
from fusegen.ops.pointwise.logic import EQ, LOGICAL_AND, LOGICAL_NOT, LOGICAL_OR, LOGICAL_XOR, NE
from fusegen.ops.record import Pointwise, Reshape
from fusegen.ops.registry import FUNCTIONS

# Which elements of a node's value have no bound, given its operands' values; None for none.
Unbounded = Callable[[Node, Sequence[Tensor]], "Tensor | None"]

# How far beyond its samples an angle may be, on each side, in parts of their spread: that of bounds
# (`SPREAD_FACTOR`) is one to both sides of the exact value, 6 times as far as they are.
BEYOND = 2.5

# Where the divisor is.
QUOTIENTS = {
    **dict.fromkeys((DIVIDE, FLOOR_DIVIDE, TRUNCATE_DIVIDE, REMAINDER), 1),
    RECIPROCAL: 0,
}
# Which of the operands a result is, if they are equal, is open.
EXTREMES = tuple(FUNCTIONS[name] for name in ("amax", "amin", "maximum", "minimum"))
# Which operands decide.
WATCHED = {
    **{operation: (place,) for operation, place in QUOTIENTS.items()},
    TAN: (0,),
    **dict.fromkeys((MUL, POWER), (0, 1)),
}
# The same for truth values: of numbers that are 0 or are not, and of the difference of two. Errors
# that two have in common, as a value and the greatest of it, take none across the other.
WATCHED_FOR_TRUTH = {
    **dict.fromkeys((CAST, LOGICAL_NOT), (0,)),
    **dict.fromkeys((EQ, NE, LOGICAL_AND, LOGICAL_OR, LOGICAL_XOR), (0, 1)),
}


def bounded(node: Node, operands: Sequence[Tensor]) -> None:
    """No element of any value is without a bound."""


@dataclass(frozen=True)
class _Seen:
    """The least and the greatest of an operand's elements in any sample, NaN left out."""

    least: Tensor
    greatest: Tensor

    @staticmethod
    def of(operand: Tensor) -> _Seen:
        missing = operand.isnan()
        return _Seen(operand.masked_fill(missing, inf), operand.masked_fill(missing, -inf))

    def or_in(self, other: _Seen) -> _Seen:
        return _Seen(
            torch.minimum(self.least, other.least), torch.maximum(self.greatest, other.greatest)
        )

    @property
    def crossing(self) -> Tensor:
        """Whether errors take it across 0."""
        return (self.least < 0) & (self.greatest > 0)

    @property
    def infinite(self) -> Tensor:
        return (self.least == -inf) | (self.greatest == inf)

    @property
    def surely_whole(self) -> Tensor:
        return (self.least == self.greatest) & (self.least == self.least.floor())

    @property
    def turning(self) -> Tensor:
        """Whether a tangent has a pole among its angles, or as near to them as a kernel's may lie:
        where the samples are spread, its own error may be some times as large."""
        further = BEYOND * (self.greatest - self.least)
        turns = [
            (x / math.pi - 0.5).floor() for x in (self.least - further, self.greatest + further)
        ]
        return (self.least < self.greatest) & (turns[0] != turns[1])

    @property
    def maybe_whole(self) -> Tensor:
        """Whether errors take it to a whole number, or across one."""
        return (self.least < self.greatest) & (self.greatest.floor() >= self.least.ceil())


class Crossings:
    """What errors take across 0 in a graph, by samples that all evaluate it in one order."""

    def __init__(self) -> None:
        self._seen: list[_Seen] = []

    def noted(self, wanted: bool = True) -> Unbounded:
        """For one more sample, which is told of no element; nothing is kept if it is not wanted."""
        places = itertools.count()

        def note(node: Node, operands: Sequence[Tensor]) -> None:
            for operand in _watched(node, operands):
                place, seen = next(places), _Seen.of(operand)
                if place == len(self._seen):
                    self._seen.append(seen)
                else:
                    self._seen[place] = self._seen[place].or_in(seen)

        return note if wanted else bounded

    def without_bound(self) -> Unbounded:
        """For a sample that is to be lost where those noted were on both sides of 0."""
        places = iter(self._seen)

        def look(node: Node, operands: Sequence[Tensor]) -> Tensor | None:
            seen = [next(places) for _ in _watched(node, operands)]
            if not seen:
                return None
            crossing = seen[0].crossing
            if node.operation in QUOTIENTS and _is_extreme(
                node.operands[QUOTIENTS[node.operation]]
            ):
                crossing = crossing | (seen[0].least == 0) & (seen[0].greatest == 0)
            if node.operation is MUL:
                first, second = seen
                crossing = first.crossing & second.infinite | second.crossing & first.infinite
            if node.operation is POWER:  # which has a pole where exponents are negative
                base, exponent = seen
                pole = crossing & (exponent.least < 0)
                is_nan = crossing & ~exponent.surely_whole  # on one side
                crossing = pole | is_nan | (base.least < 0) & exponent.maybe_whole
            if node.operation is TAN:
                crossing = seen[0].turning
            if node.operation in (LOGICAL_AND, LOGICAL_OR, LOGICAL_XOR):
                crossing = crossing | seen[1].crossing
            if not crossing.any():
                return None
            shape = torch.broadcast_shapes(*(o.shape for o in operands))  # type: ignore[no-untyped-call]
            return crossing.broadcast_to(shape)

        return look


def _is_extreme(node: Node) -> bool:
    """Whether a value is the greatest or the least of several."""
    while isinstance(node.operation, Reshape):
        (node,) = node.operands
    return node.operation in EXTREMES


def _watched(node: Node, operands: Sequence[Tensor]) -> list[Tensor]:
    """What a node divides by, its factors, its base and exponent, or what is 0 or not where it is
    true, if they are floats that errors may have moved."""
    if not isinstance(node.operation, Pointwise):
        return []
    if node.dtype is DType.BOOL:
        positions = WATCHED_FOR_TRUTH.get(node.operation, ())
        if not any(node.operands[p].dtype.is_float for p in positions):
            return []
        watched = [operands[p].double() for p in positions]
        return [watched[0] - watched[1]] if node.operation in (EQ, NE) else watched
    if not node.dtype.is_float:
        return []
    positions = WATCHED.get(node.operation, ())
    moved = [not is_number(node.operands[p]) and operands[p].is_floating_point() for p in positions]
    if node.operation is POWER:  # one of the two is often a number
        return [operands[p].double() for p in positions] if any(moved) else []
    return [operands[p] for p in positions] if all(moved) else []
