"""Which rows come ahead, and what of them: a block copies that to shared memory while it works on
another row."""

from __future__ import annotations

from fusegen.ir.dtypes import DType
from fusegen.plan.access import Access, access
from fusegen.plan.expressions import Load, certain_loads
from fusegen.plan.kernels.row_program import RowProgram
from fusegen.plan.kernels.rows import COPY_BYTES, Ahead, RowForm
from fusegen.plan.strategies.elementwise import ACCESS_BYTES
from fusegen.plan.strategies.row_layout import Layout

# Rows of so many columns come ahead where their elements have so many bytes.
COLUMNS = range(16385, 262145)
ITEM_BYTES = (2, 4)
# The same where threads keep sums over rows.
COLUMNS_WITH_SUMS = range(33, 131073)
# Rows of so many columns of so many bytes, in so many phases or more, that come ahead to blocks of
# which just so many share a multiprocessor: a layer norm of 10240 columns has 0.92 of a copy's
# bandwidth so, and 0.77 else. Others of 9216 to 16384 columns were as quick, or spilled registers
# (docs/notes/memory-bound.md).
PAIRED_COLUMNS = (10240, 12288)
PAIRED_BYTES = 2
PAIRED_PHASES = 3
PAIRED_BLOCKS = 2
# The types of what is copied ahead.
DTYPES: tuple[DType, ...] = (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32)
# The most rows that are under way at once.
MOST_ROWS = 2
# The most numbers of a row that are loaded ahead: each takes a register.
MOST_SCALARS = 4
# Shared memory of a multiprocessor that is left to reductions and to what CUDA keeps of a block.
RESERVED_BYTES = 16 * 1024
# The least of what all rows read alike that is worth keeping where no sums over rows are kept: the
# weight of an RMS norm alone came as soon from the L2 cache (docs/notes/memory-bound.md).
LEAST_ALIKE = 2
# The part of a thread's registers, in quarters, for what it keeps of a row and of what all rows
# have alike.
RESIDENT_QUARTERS = 3


def come_ahead(layout: Layout, with_sums: bool) -> bool:
    """Whether rows of that length should come ahead; `with_sums` where threads keep sums over
    them."""
    is_among = layout.is_fixed and layout.columns in (COLUMNS_WITH_SUMS if with_sums else COLUMNS)
    item_bytes = ACCESS_BYTES // layout.vector
    return is_among and item_bytes in ITEM_BYTES and layout.device is not None


def may_come_in_pairs(layout: Layout, with_sums: bool) -> bool:
    """Whether rows of that length may come ahead to two blocks of a multiprocessor."""
    is_among = layout.is_fixed and layout.columns in PAIRED_COLUMNS and not with_sums
    return is_among and layout.vector == ACCESS_BYTES // PAIRED_BYTES


def comes_in_pairs(form: RowForm) -> bool:
    """Whether a form in which they may is one that gains by it."""
    return form.least_blocks == PAIRED_BLOCKS and len(form.program.phases) >= PAIRED_PHASES


def ahead_of(program: RowProgram, form: RowForm, vector: int, shared_memory: int) -> Ahead | None:
    """What a kernel of this form should copy ahead, given the shared memory of a multiprocessor;
    None where nothing is fit for it, or where not even a row has room."""
    room = (shared_memory - RESERVED_BYTES) // form.least_blocks - form.sum_bytes
    one = form.steps * form.threads * COPY_BYTES
    loads = _loads(program, vector)[: room // one]
    if not loads:
        return None
    scalars = _scalars(program)[:MOST_SCALARS]
    # Where blocks share a multiprocessor, others compute while one waits for a row.
    are_shared = form.least_blocks > 1 and not program.sums
    rows = min(1 if are_shared else MOST_ROWS, room // (one * len(loads)))
    resident = _resident(form, program, vector)
    left = room // one - rows * len(loads)
    shared = [load for load in _alike(program, vector) if load not in resident]
    shared = [load for load in shared if _is_copied(load, vector)][:left]
    return Ahead(rows, loads, scalars, resident, tuple(shared))


def _loads(program: RowProgram, vector: int) -> tuple[Load, ...]:
    """What differs from row to row and is read as whole vectors of 16 bytes, in the order in which
    phases read it."""
    domain = program.domain
    found: dict[Load, None] = {}
    for phase in program.phases:
        for load in certain_loads(phase.roots):
            moves = domain.row.alone in load.offset.symbols()
            way = access(load.offset, domain.column, vector, (domain.columns,))
            if moves and _is_copied(load, vector) and way is Access.CONTIGUOUS:
                found[load] = None
    return tuple(found)


def _is_copied(load: Load, vector: int) -> bool:
    """Whether one copy brings a vector of it."""
    return load.dtype in DTYPES and load.dtype.itemsize * vector == COPY_BYTES


def _alike(program: RowProgram, vector: int) -> tuple[Load, ...]:
    """What all rows read alike as whole vectors, if it is worth keeping."""
    domain = program.domain
    loads = (load for phase in program.phases for load in certain_loads(phase.roots))
    alike = (load for load in loads if domain.row.alone not in load.symbols)
    found = tuple(
        load
        for load in dict.fromkeys(alike)
        if access(load.offset, domain.column, vector, (domain.columns,)) is Access.CONTIGUOUS
    )
    keeps_sums = any(phase.sums for phase in program.phases)
    return found if keeps_sums or len(found) >= LEAST_ALIKE else ()


def _resident(form: RowForm, program: RowProgram, vector: int) -> tuple[Load, ...]:
    """As much of what all rows read alike as registers are left for."""
    columns, word = form.steps * vector, DType.FLOAT32.itemsize
    left = form.registers * RESIDENT_QUARTERS // 4 - columns * program.register_bytes // word
    found = []
    for load in _alike(program, vector):
        taken = -(-columns * load.dtype.itemsize // word)
        if taken <= left:
            found.append(load)
            left -= taken
    return tuple(found)


def _scalars(program: RowProgram) -> tuple[Load, ...]:
    """What is read once a row: a saved mean, say."""
    row, column = program.domain.row.alone, program.domain.column.alone
    loads = (load for phase in program.phases for load in certain_loads(phase.roots))
    moving = (load for load in loads if row in load.offset.symbols())
    return tuple(dict.fromkeys(load for load in moving if column not in load.symbols))
