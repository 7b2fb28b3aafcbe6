"""Which reciprocals an elementwise kernel multiplies out: special functions are its limit."""

from __future__ import annotations

from fusegen.ops.record import Near
from fusegen.plan.cost import Device
from fusegen.plan.expressions import Compute, Expression, Load, walk
from fusegen.plan.tolerance import NARROW

# The special-function unit is busy with one instruction while 8 others are issued: it has 16 of a
# multiprocessor's 128 lanes (CUDA C++ Programming Guide, throughput of arithmetic instructions).
# One more was measured to choose best (docs/notes/memory-bound.md).
SPECIAL = 9
# The part of the time for an element's bytes that special functions may take: the same
# multiprocessors also come with memory that is a third faster.
HIDDEN = 3 / 4
# Instructions for an element that is loaded or stored: conversion, and a share of the addresses and
# of the thread's beginning.
ACCESS = 2


def multiplied(
    values: tuple[Expression, ...], element_bytes: float, device: Device
) -> frozenset[Expression]:
    """Of what an elementwise kernel computes, the operations whose reciprocals are multiplied out.

    `values` are stored, and `element_bytes` moved for each element. An element takes the longer of
    its special functions and its instructions: operations are taken while that becomes shorter, and
    longer than its bytes, first those with the fewest instructions more, of equals that which is
    computed first.
    """
    expressions = tuple(walk(values))
    specials = sum(near.specials for e in expressions if (near := _near(e)) is not None)
    instructions = ACCESS * len(values) + sum(_instructions(e) for e in expressions)
    hidden = HIDDEN * element_bytes * device.issue_rate / device.bandwidth
    chosen: list[Expression] = []
    for expression, near, other in sorted(_candidates(expressions), key=_added):
        fewer = specials - near.specials + other.specials
        more = instructions - near.instructions + other.instructions
        now = max(SPECIAL * specials, instructions)
        if SPECIAL * specials <= hidden or max(SPECIAL * fewer, more) >= now:
            break
        chosen.append(expression)
        specials, instructions = fewer, more
    return frozenset(chosen)


Candidate = tuple[Expression, Near, Near]


def _candidates(expressions: tuple[Expression, ...]) -> list[Candidate]:
    """The operations that can do with fewer special functions, as they are and as they would be."""
    found = [(e, near) for e in expressions if (near := _near(e)) is not None]
    return [(e, near, near.multiplied) for e, near in found if near.multiplied is not None]


def _added(candidate: Candidate) -> int:
    _, near, other = candidate
    return other.instructions - near.instructions


def _near(expression: Expression) -> Near | None:
    """The quicker expression that an operation has for its result of 16 bits."""
    if isinstance(expression, Compute) and expression.dtype in NARROW:
        return expression.operation.near
    return None


def _instructions(expression: Expression) -> int:
    near = _near(expression)
    if near is not None:
        return near.instructions
    if isinstance(expression, Compute):
        return expression.operation.cost
    return ACCESS if isinstance(expression, Load) else 0
