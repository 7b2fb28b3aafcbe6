"""What a kernel leaves in memory: values, and the states of reductions."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.ir.dtypes import DType
from fusegen.ir.integers import Integer
from fusegen.plan.buffers import Buffer
from fusegen.plan.expressions import Expression, Reduced


@dataclass(frozen=True)
class Store:
    """Write `value` to `buffer` at its row-major `position`."""

    buffer: Buffer
    position: Integer
    value: Expression


@dataclass(frozen=True)
class StateStore:
    """Leave the state of a reduction in `buffer`, one for each row and part of a row.

    The state at `row * parts + part` is that of `reduction` over the part's columns.
    """

    buffer: Buffer
    reduction: Reduced
    accumulator: DType
