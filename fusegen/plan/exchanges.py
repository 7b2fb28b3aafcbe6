"""Fewer exchanges between the threads that share a row: what one can do where two are usual."""

from __future__ import annotations

from dataclasses import replace

from fusegen.ir.dtypes import DType
from fusegen.ops.pointwise.arithmetic import SUB
from fusegen.ops.pointwise.functions import EXP
from fusegen.ops.record import Monoid
from fusegen.plan.expressions import Compute, Expression, Reduced
from fusegen.plan.kernels.row_program import Kept, Phase, Powers, RowProgram

# Their states are merged without the number of elements where all threads have as many.
MOMENTS = (Monoid.MEAN, Monoid.MOMENTS)


def moments_are_kept(program: RowProgram) -> bool:
    """Whether there are moments, each of a value that its phase keeps: then a thread can go through
    all that it has of a row a second time, in registers."""
    found = [
        (reduction.operand, {kept.value for kept in phase.writes})
        for phase in program.phases
        for reduction in phase.reductions
        if reduction.monoid in MOMENTS
    ]
    return bool(found) and all(operand in kept for operand, kept in found)


def with_powers(program: RowProgram) -> RowProgram:
    """The same with the greatest of a row and the sum of its exponentials, as in a softmax, in one
    phase; the same object where there is no such pair of phases."""
    for number, (first, second) in enumerate(zip(program.phases, program.phases[1:], strict=False)):
        powers = _powers(first, second)
        if powers is not None:
            joined = replace(first, powers=powers)
            phases = (*program.phases[:number], joined, *program.phases[number + 2 :])
            return replace(program, phases=phases)
    return program


def _powers(first: Phase, second: Phase) -> Powers | None:
    """What `second` does as a part of `first`, if that is all it does."""
    if len(first.reductions) != 1 or len(second.reductions) != 1:
        return None
    (greatest,), (total,) = first.reductions, second.reductions
    if greatest.monoid is not Monoid.MAXIMUM or total.monoid is not Monoid.SUM:
        return None
    power = total.operand
    source = [kept for kept in first.writes if kept.value is greatest.operand]
    added = (*second.stores, *second.sums, *second.pieces)
    is_all = second.reads == tuple(source) and not added
    is_kept = all(kept.value is power for kept in second.writes)
    if not (is_all and is_kept and source and _is_shifted(power, greatest)):
        return None
    kept: Kept | None = next(iter(second.writes), None)
    return Powers(greatest, power, total, source[0], kept)


def _is_shifted(power: Expression, greatest: Reduced) -> bool:
    """Whether it is exp(x - greatest)."""
    if not isinstance(power, Compute) or power.operation is not EXP:
        return False
    (distance,) = power.operands
    if not isinstance(distance, Compute) or distance.operation is not SUB:
        return False
    types = {value.dtype for value in (power, distance, *distance.operands)}
    return distance.operands == (greatest.operand, greatest) and types == {DType.FLOAT32}
