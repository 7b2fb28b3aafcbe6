"""What a thread loads ahead of where it needs it: truth values, such as masks, which take a quarter
of a register each (docs/notes/product-shapes.md, "Batches of several dims: attention")."""

from __future__ import annotations

from fusegen.ir.dtypes import DType
from fusegen.ir.integers import Integer
from fusegen.plan.access import Access, access
from fusegen.plan.expressions import Expression, Load, certain_loads
from fusegen.plan.kernels.row_program import RowProgram

# How many vectors under the conditions of selections stand in registers together with all that is
# loaded ahead, each for all of a thread's steps: queries, keys and values have three.
MOST_GUARDED = 3
# How many masks a product's epilogue may meet: each takes 32 registers beside 128 sums.
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
