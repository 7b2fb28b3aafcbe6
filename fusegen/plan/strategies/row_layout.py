"""Which way threads lie over rows and columns, and how many share a row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fusegen.ir.integers import Integer
from fusegen.plan.access import Access, access, even_sizes
from fusegen.plan.buffers import Buffer
from fusegen.plan.cost import Device, SizeHints
from fusegen.plan.expressions import Select, walk
from fusegen.plan.group import Context
from fusegen.plan.kernels.base import WARP
from fusegen.plan.kernels.row_program import RowProgram
from fusegen.plan.kernels.rows import BUSY_BYTES, RowMapping
from fusegen.plan.phases import loads_of
from fusegen.plan.strategies.elementwise import ACCESS_BYTES, MOST_ELEMENTS

BLOCK_THREADS = 256
FEWEST_THREADS = 128
WIDEST_BLOCK = 512
# A warp takes a row up to this many columns; a block of its own takes a longer one.
WARP_COLUMNS = 1024
# Whole vectors of a short row that a thread has best; at least so many threads share the row
# (docs/notes/memory-bound.md, short rows).
BEST_VECTORS = 4
FEWEST_LANES = 4
# Bytes of a row that a thread keeps in registers; twice that where a row is too long for a cluster.
KEPT_BYTES = BUSY_BYTES
# Vectors that a thread loads before it uses the first, where it goes through a row in a loop.
LOOP_STEPS = 4
# Rows per block where neighbouring threads work on neighbouring rows, how many threads share one,
# and how many columns of it each loads together. Blocks have 256 threads at least.
OUTER_ROWS = 32
OUTER_LANES = 8
MOST_OUTER_LANES = 16
OUTER_STEPS = 4
# Elements that a thread loads together at most where it needs more steps, and columns that it has
# to itself.
OUTER_COLUMNS = 16
# Half a sector of 32 bytes, the least that memory gives.
SCATTERED_BYTES = 16
# A part of a row should be long enough to be worth a block.
LEAST_PART = 2048


@dataclass(frozen=True)
class Layout:
    """Which way threads lie for about `rows` rows of about `columns`, `is_fixed` where that is all
    columns there are.

    Neighbouring threads take neighbouring vectors of a row or, with `is_outer`, neighbouring rows.
    `lanes` threads share a row of that length. With a `device`, rows may come ahead.
    """

    rows: int
    columns: int
    is_fixed: bool
    is_outer: bool
    vector: int
    lanes: int
    device: Device | None = None

    @staticmethod
    def of(program: RowProgram, context: Context) -> Layout:
        """Lay threads along whichever direction most bytes are neighbours in."""
        domain = program.domain
        rows = context.hints.value(domain.rows)
        columns = context.hints.value(domain.columns)
        is_fixed = domain.columns.constant is not None
        along_rows = along_columns = 0
        narrowest = ACCESS_BYTES
        for itemsize, weight in _weighted_accesses(program, context):
            narrowest = min(narrowest, itemsize)
            along_columns += weight.columns
            along_rows += weight.rows
        if along_rows > along_columns:
            vector = _outer_vector(program, narrowest)
            # Few columns are a thread's own, so that nothing is exchanged.
            wanted = power_of_two(-(-columns // OUTER_COLUMNS)) if is_fixed else OUTER_LANES
            return Layout(rows, columns, is_fixed, True, vector, min(wanted, OUTER_LANES))
        vector = min(ACCESS_BYTES // narrowest, MOST_ELEMENTS)
        while is_fixed and columns % vector:
            vector //= 2
        vector = _unbroken(program, domain.column, vector)
        wanted = power_of_two(-(-columns // vector))
        if columns <= WARP_COLUMNS:
            is_wide = is_fixed and vector * narrowest == ACCESS_BYTES
            lanes = lanes_of(wanted, BEST_VECTORS if is_wide else 1)
            return Layout(rows, columns, is_fixed, False, vector, lanes, context.device)
        lanes = min(max(wanted // LOOP_STEPS, FEWEST_THREADS), WIDEST_BLOCK)
        return Layout(rows, columns, is_fixed, False, vector, lanes, context.device)

    @staticmethod
    def of_lanes(program: RowProgram, context: Context, lanes: int) -> Layout:
        """Given how many threads share a row, an element at a time."""
        domain = program.domain
        rows = context.hints.value(domain.rows)
        columns = context.hints.value(domain.columns)
        return Layout(rows, columns, domain.columns.constant is not None, False, 1, lanes)

    @property
    def mapping(self) -> RowMapping:
        """Which threads share a row."""
        if self.is_outer:
            return RowMapping.OUTER
        return RowMapping.WARP if self.lanes <= WARP else RowMapping.BLOCK

    @property
    def threads(self) -> int:
        """How many threads a block has."""
        if self.is_outer:
            return max(BLOCK_THREADS, self.lanes * OUTER_ROWS)
        return max(BLOCK_THREADS, self.lanes) if self.lanes <= WARP else self.lanes

    @property
    def rows_a_block(self) -> int:
        """How many rows a block works on at once."""
        return self.threads // self.lanes * (self.vector if self.is_outer else 1)

    @property
    def least_part(self) -> int:
        """The fewest columns that are worth a block."""
        return LEAST_PART // OUTER_ROWS if self.is_outer else LEAST_PART

    @property
    def steps(self) -> int:
        """How many vectors a thread loads together where it goes through a row in a loop."""
        if not self.is_outer:
            return LOOP_STEPS
        own = -(-self.columns // self.lanes) if self.is_fixed else OUTER_STEPS
        return max(OUTER_STEPS, min(power_of_two(own), OUTER_COLUMNS // self.vector))


@dataclass(frozen=True)
class _Weight:
    rows: int
    columns: int


def _weighted_accesses(program: RowProgram, context: Context) -> list[tuple[int, _Weight]]:
    """For each buffer touched along the columns: its item size, and its bytes' direction. A vector
    that all rows read weighs little, as it is small."""
    domain = program.domain
    found = []
    for buffer, position in dict.fromkeys(_touched(program)):
        moved = context.hints.value(buffer.bytes)
        columns = moved * (access(position, domain.column, 1) is Access.CONTIGUOUS)
        rows = moved * (access(position, domain.row, 1) is Access.CONTIGUOUS)
        found.append((buffer.dtype.itemsize, _Weight(rows if not columns else 0, columns)))
    return found


def _touched(program: RowProgram) -> Iterator[tuple[Buffer, Integer]]:
    """What each phase reads and writes along the columns, and where."""
    for phase in program.phases:
        loads = ((x.buffer, x.offset) for x in loads_of(phase.roots))
        for buffer, position in (*loads, *((s.buffer, s.position) for s in phase.stores)):
            if program.domain.column.alone in position.symbols():
                yield buffer, position


def scattered_bytes(program: RowProgram, is_outer: bool, hints: SizeHints) -> int:
    """What memory moves for accesses that neighbouring threads do not make to neighbours: a part of
    a sector for each of them, as others find the rest of it in the cache."""
    domain = program.domain
    step = domain.row if is_outer else domain.column
    moved = 0
    for buffer, position in _touched(program):
        if access(position, step, 1) is Access.SCATTERED:
            moved += hints.value(buffer.type.count) * SCATTERED_BYTES
    return moved


def _outer_vector(program: RowProgram, narrowest: int) -> int:
    """How many neighbouring rows a thread takes together: as wide an access as there is, but fewer
    where a row would not fit into a block's registers so."""
    domain = program.domain
    vector = min(ACCESS_BYTES // narrowest, MOST_ELEMENTS)
    while domain.rows.constant is not None and domain.rows.constant % vector:
        vector //= 2
    columns = domain.columns.constant
    kept = program.kept_bytes * (columns or 0)
    fits = KEPT_BYTES * MOST_OUTER_LANES
    while kept <= fits < kept * vector:
        vector //= 2
    return _unbroken(program, domain.row, vector)


def _unbroken(program: RowProgram, step: Integer, vector: int) -> int:
    """How many neighbours along a direction, of `vector`, come with one access wherever single ones
    are neighbours: fewer where these lie in runs, such as a channel's pixels, of a known length
    that is no multiple. Parts that are joined have places of their own, and keep theirs."""
    domain = program.domain
    if any(isinstance(expression, Select) for expression in walk(program.values)):
        return vector
    positions = [position for _, position in dict.fromkeys(_touched(program))]
    runs = [p for p in positions if access(p, step, 1) is Access.CONTIGUOUS]
    lines = (domain.rows, domain.columns)
    while vector > 1:
        multiples = (*lines, *even_sizes(positions, step, vector))
        if all(access(p, step, vector, multiples) is Access.CONTIGUOUS for p in runs):
            break
        vector //= 2
    return vector


def lanes_of(vectors: int, each: int) -> int:
    """How many threads share a row of so many vectors, a power of two, if each has so many."""
    return min(max(vectors // each, min(vectors, FEWEST_LANES)), WARP)


def power_of_two(least: int) -> int:
    """The least power of two that is not below `least`."""
    return 1 << max(least - 1, 0).bit_length()
