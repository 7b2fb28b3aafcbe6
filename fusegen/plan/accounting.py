"""Counts the bytes and operations of a kernel from its expressions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fusegen.ops.record import Monoid
from fusegen.plan.cost import SizeHints
from fusegen.plan.expressions import (
    Compute,
    Expression,
    Load,
    PartialStates,
    Reduced,
    walk,
)
from fusegen.plan.kernels.row_program import Phase, RowProgram
from fusegen.plan.kernels.stores import Store
from fusegen.plan.phases import state_holders

# Instructions to take one element into a reduction's state: those with a division or exponential
# are dear, and an index takes a comparison more.
PUSH_COST = {
    Monoid.SUM: 1,
    Monoid.PRODUCT: 1,
    Monoid.MAXIMUM: 2,
    Monoid.MINIMUM: 2,
    Monoid.ANY: 1,
    Monoid.ALL: 1,
    Monoid.ARGMAX: 6,
    Monoid.ARGMIN: 6,
    Monoid.LOG_SUM_EXP: 16,
    Monoid.MEAN: 6,
    Monoid.MOMENTS: 6,
}


@dataclass(frozen=True)
class Work:
    """Bytes read and written, and elementary operations."""

    reads: int
    writes: int
    flops: int


def store_bytes(stores: tuple[Store, ...], hints: SizeHints) -> int:
    """The bytes that stores write: each fills its buffer."""
    return sum(hints.value(store.buffer.bytes) for store in stores)


def elementwise_work(stores: tuple[Store, ...], count: int, hints: SizeHints) -> Work:
    """The work of a kernel that computes every store once for each of `count` elements."""
    expressions = tuple(walk(tuple(store.value for store in stores)))
    return Work(
        _load_bytes(expressions, hints),
        store_bytes(stores, hints),
        count * expression_cost(expressions),
    )


def row_work(program: RowProgram, hints: SizeHints) -> Work:
    """The work of a row program: values read from the row cache cost nothing."""
    rows = hints.value(program.domain.rows)
    count = rows * hints.value(program.domain.columns)
    reads = flops = 0
    writes = store_bytes(program.row_stores, hints)
    for phase in program.phases:
        expressions = phase_expressions(phase)
        reads += _load_bytes(expressions, hints)
        flops += count * (expression_cost(expressions) + _push_cost(phase))
        writes += store_bytes(phase.stores, hints)
        flops += count * (len(phase.sums) + len(phase.pieces))
    row_values = tuple(store.value for store in program.row_stores)
    flops += rows * expression_cost(tuple(walk(row_values)))
    left = [*(s.buffer for s in program.states), *(s.buffer for s in program.sums)]
    left += [s.buffer for s in program.pieces]
    states = sum(hints.value(buffer.bytes) for buffer in left)
    return Work(reads, writes + states, flops)


def _push_cost(phase: Phase) -> int:
    holders = dict.fromkeys(state_holders(phase.reductions).values())
    return sum(PUSH_COST[holder.monoid] for holder in holders)


def phase_expressions(phase: Phase) -> tuple[Expression, ...]:
    """What a phase computes for each column: not what it reads from the row cache, nor what
    earlier phases reduced."""
    stop = {kept.value for kept in phase.reads}
    found: dict[Expression, None] = {}
    stack = [*reversed(phase.roots)]
    while stack:
        expression = stack.pop()
        if expression in found or expression in stop:
            continue
        found[expression] = None
        if not isinstance(expression, Reduced):
            stack.extend(reversed(expression.arguments))
    return tuple(found)


def _load_bytes(expressions: tuple[Expression, ...], hints: SizeHints) -> int:
    buffers = {e.buffer for e in expressions if isinstance(e, (Load, PartialStates))}
    return sum(hints.value(buffer.bytes) for buffer in buffers)


def expression_cost(expressions: Iterable[Expression]) -> int:
    """The elementary operations of one element."""
    return sum(e.operation.cost for e in expressions if isinstance(e, Compute))
