"""Where what is divided by may be 0, for all that is known of it.

As far as a divisor may be off, a kernel's is somewhere between what errors move it to. If that lies
on both sides of 0, a quotient has no bound: however many samples there are, a kernel's divisor may
be nearer to 0 than that of any. A divisor that is 0 itself, or that no error moves across it, is
none of these.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from fusegen.ir.graph import Node
from fusegen.ops.construct import is_number
from fusegen.ops.pointwise.arithmetic import (
    DIVIDE,
    FLOOR_DIVIDE,
    POWER,
    RECIPROCAL,
    REMAINDER,
    TRUNCATE_DIVIDE,
)
from fusegen.ops.record import Pointwise

# Which elements of a node's value have no bound, given its operands' values; None for none.
Unbounded = Callable[[Node, Sequence[Tensor]], "Tensor | None"]

# Which operand is divided by.
DIVISORS = {DIVIDE: 1, FLOOR_DIVIDE: 1, TRUNCATE_DIVIDE: 1, REMAINDER: 1, RECIPROCAL: 0, POWER: 0}


def bounded(node: Node, operands: Sequence[Tensor]) -> None:
    """No element of any value is without a bound."""


class Divisors:
    """How far errors move each divisor of a graph, by samples that all evaluate it in one order."""

    def __init__(self) -> None:
        self._ranges: list[tuple[Tensor, Tensor]] = []

    def noted(self, wanted: bool = True) -> Unbounded:
        """For one more sample, which is told of no element; nothing is kept if it is not wanted."""
        places = itertools.count()

        def note(node: Node, operands: Sequence[Tensor]) -> None:
            divisor = _divisor(node, operands)
            if divisor is not None:
                place = next(places)
                if place == len(self._ranges):
                    self._ranges.append((divisor, divisor))
                least, greatest = self._ranges[place]
                self._ranges[place] = torch.fmin(least, divisor), torch.fmax(greatest, divisor)

        return note if wanted else bounded

    def crossing_zero(self) -> Unbounded:
        """For a sample that is to be lost where a divisor was on both sides of 0 in those noted."""
        ranges = iter(self._ranges)

        def look(node: Node, operands: Sequence[Tensor]) -> Tensor | None:
            if _divisor(node, operands) is None:
                return None
            least, greatest = next(ranges)
            crossing = (least < 0) & (greatest > 0)
            if node.operation is POWER:  # which has a pole where exponents are negative
                crossing = crossing & (operands[1] < 0)
            if not crossing.any():
                return None
            return crossing.broadcast_to(sum(operands[1:], operands[0]).shape)

        return look


def _divisor(node: Node, operands: Sequence[Tensor]) -> Tensor | None:
    """What a node divides by, if that is a float that errors may have moved."""
    position = DIVISORS.get(node.operation) if isinstance(node.operation, Pointwise) else None
    if position is None or not node.dtype.is_float or is_number(node.operands[position]):
        return None
    return operands[position] if operands[position].is_floating_point() else None
