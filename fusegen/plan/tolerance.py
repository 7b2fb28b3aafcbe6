"""Where a kernel may take a quicker function: what is rounded to 16 bits before anything else could
make its error larger."""

from __future__ import annotations

from collections.abc import Iterable

from fusegen.ir.dtypes import DType
from fusegen.ops.pointwise import casting
from fusegen.ops.pointwise.arithmetic import DIVIDE, MUL
from fusegen.ops.pointwise.functions import EXP
from fusegen.ops.record import Monoid
from fusegen.plan.expressions import Compute, Expression, Reduced, walk

NARROW = (DType.FLOAT16, DType.BFLOAT16)
# Relative errors of the operands add up in the result.
SCALING = (MUL, DIVIDE)
# Sums of what these give have no terms of different signs, so no term's relative error grows.
NEVER_NEGATIVE = (EXP,)


def tolerant(stored: Iterable[tuple[Expression, DType]]) -> frozenset[Expression]:
    """The float32 values whose relative error reaches results of 16 bits only, and no larger.

    `stored` are the values that leave the kernel and the dtypes of their memory. A value that is
    subtracted from another, say, is not among them: what is left may be as small as the error.
    """
    refused: set[Expression] = set()
    roots = tuple(value for value, _ in stored)
    for value, memory in stored:
        if memory not in NARROW:
            refused.add(value)
    for user in reversed([*walk(roots)]):  # users before arguments
        for argument in user.arguments:
            if not _hands_on(user, argument) or (user in refused and user.dtype not in NARROW):
                refused.add(argument)
    return frozenset(v for v in walk(roots) if v not in refused and v.dtype is DType.FLOAT32)


def _hands_on(user: Expression, argument: Expression) -> bool:
    """Whether the relative error of `user` is at most about its argument's, or hidden."""
    if isinstance(user, Reduced):
        is_sum = user.monoid is Monoid.SUM
        return is_sum and isinstance(argument, Compute) and argument.operation in NEVER_NEGATIVE
    if not isinstance(user, Compute):
        return False
    if user.operation in (casting.CAST, casting.NARROW):
        return user.dtype in NARROW or user.dtype is argument.dtype
    return user.operation in SCALING and argument.dtype is DType.FLOAT32
