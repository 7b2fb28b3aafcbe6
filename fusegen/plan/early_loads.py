"""What a thread loads ahead of where it needs it: truth values, such as masks, which take a quarter
of a register each (docs/notes/product-shapes.md, "Batches of several dims: attention")."""

from __future__ import annotations

from fusegen.ir.dtypes import DType
from fusegen.ir.integers import Integer
from fusegen.plan.access import Access, access
from fusegen.plan.expressions import Expression, Load, Reduced, Select
from fusegen.plan.kernels.row_program import RowProgram

# How many of them a product's epilogue may meet: each takes 32 registers beside 128 sums.
MOST_IN_TILE = 1


def early_in_rows(program: RowProgram, vector: int) -> tuple[Load, ...]:
    """What later phases need that differs from row to row, to be loaded with what the first one
    reads."""
    domain = program.domain
    first, *later = program.phases
    own = set(certain_loads(first.roots))
    found = dict.fromkeys(load for phase in later for load in certain_loads(phase.roots))
    return tuple(
        load
        for load in found
        if load not in own
        and domain.row.alone in load.offset.symbols()
        and _is_mask(load, domain.column, domain.columns, vector)
    )


def early_in_tile(
    values: tuple[Expression, ...], column: Integer, columns: Integer, vector: int
) -> tuple[Load, ...]:
    """What the epilogue of a product needs, to be loaded while the products are made."""
    found = dict.fromkeys(certain_loads(values))
    masks = (load for load in found if _is_mask(load, column, columns, vector))
    return tuple(masks)[:MOST_IN_TILE]


def _is_mask(load: Load, column: Integer, columns: Integer, vector: int) -> bool:
    way = access(load.offset, column, vector, (columns,))
    return load.dtype is DType.BOOL and way is Access.CONTIGUOUS


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
