"""How threads are laid over rows and columns, for rows of each length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from fusegen.ir.dtypes import DType
from fusegen.ir.integers import Integer
from fusegen.plan import exchanges
from fusegen.plan.access import Access, access
from fusegen.plan.buffers import Buffer
from fusegen.plan.cost import Device
from fusegen.plan.group import Context
from fusegen.plan.kernels.base import WARP
from fusegen.plan.kernels.row_program import RowProgram
from fusegen.plan.kernels.rows import BUSY_BYTES, SUMMING_THREADS, RowForm, RowMapping
from fusegen.plan.phases import loads_of
from fusegen.plan.strategies import rows_ahead
from fusegen.plan.strategies.elementwise import ACCESS_BYTES, MOST_ELEMENTS

BLOCK_THREADS = 256
FEWEST_THREADS = 128
WIDEST_BLOCK = 512
# Blocks of a cluster: 8 are the most that every device with clusters takes (CUDA programming
# guide, thread block clusters).
WIDEST_CLUSTER = 8
# A warp takes a row up to this many columns; a block of its own takes a longer one.
WARP_COLUMNS = 1024
# Whole vectors of a short row that a thread has best, and of one whose sums over rows it keeps;
# at least so many threads share the row (docs/notes/memory-bound.md, short rows).
BEST_VECTORS = 4
SUMMING_VECTORS = 2
FEWEST_LANES = 4
# With fewer vectors a thread, blocks of other sizes are better.
FEW_VECTORS = 3
# The least warps that share a row by way of shared memory.
LEAST_WARPS = 2
# Bytes of a row that a thread keeps in registers; twice that where a row is too long for a cluster.
KEPT_BYTES = BUSY_BYTES
# The same where it keeps sums over rows, too, and the columns that it takes then if there are
# threads enough: fewer threads with more were slower (a backward of RMS norm 4096 wide: 0.35 ms
# against 0.28).
SUMMING_BYTES = 3 * KEPT_BYTES
SUMMING_COLUMNS = 16
# Rows of so many columns come ahead where their elements have so many bytes.
AHEAD = range(16385, 262145)
AHEAD_BYTES = (2, 4)
# The same where threads keep sums over rows.
SUMMING_AHEAD = range(33, 131073)
# Blocks of so many threads, or clusters of those, take rows that come ahead. A thread keeps so many
# columns: half as many of 32 bits leave room for two rows, but make clusters twice as large, and
# most chains slower (docs/notes/memory-bound.md).
AHEAD_THREADS = 1024
AHEAD_COLUMNS = 32
# The least columns that each thread may keep.
LEAST_AHEAD_COLUMNS = 16
# Vectors that a thread loads before it uses the first, where it goes through a row in a loop.
LOOP_STEPS = 4
# Rows per block where neighbouring threads work on neighbouring rows, how many threads share one,
# and how many columns of it each loads together.
OUTER_ROWS = 32
OUTER_LANES = 8
MOST_OUTER_LANES = 16
OUTER_STEPS = 4
# Rows from which on blocks of fewer threads keep all multiprocessors busy.
MANY_ROWS = 512
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
            return Layout(
                rows, columns, is_fixed, True, _outer_vector(program, narrowest), OUTER_LANES
            )
        vector = min(ACCESS_BYTES // narrowest, MOST_ELEMENTS)
        while is_fixed and columns % vector:
            vector //= 2
        wanted = _power_of_two(-(-columns // vector))
        if columns <= WARP_COLUMNS:
            is_wide = is_fixed and vector * narrowest == ACCESS_BYTES
            lanes = _lanes(wanted, BEST_VECTORS if is_wide else 1)
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
    def rows_a_block(self) -> int:
        """How many rows a block works on at once."""
        return self._threads // self.lanes * (self.vector if self.is_outer else 1)

    @property
    def least_part(self) -> int:
        """The fewest columns that are worth a block."""
        return LEAST_PART // OUTER_ROWS if self.is_outer else LEAST_PART

    def looping(self, program: RowProgram) -> RowForm:
        """The form for rows of any length, which keeps nothing."""
        steps = OUTER_STEPS if self.is_outer else LOOP_STEPS
        return RowForm(program, self._mapping, self.lanes, self._threads, steps)

    def forms(
        self, keeping: RowProgram, streaming: RowProgram, one_pass: RowProgram | None = None
    ) -> tuple[RowForm, ...]:
        """The forms for rows of all lengths that there may be, the shortest rows first; `one_pass`
        has its moments in one pass, if there is such a program."""
        if self.is_fixed and not keeping.slots:
            return (self.looping(streaming),)
        item = max(keeping.register_bytes, DType.FLOAT32.itemsize)
        budget = SUMMING_BYTES if keeping.sums else KEPT_BYTES
        most = max(self.vector, _power_of_two(budget // item + 1) // 2)
        ways = [*(self._summing_ways(most) if keeping.sums else self._ways(most))]
        if self.is_fixed:
            ways = [way for way in ways if way.lanes * way.most >= self.columns][:1]
        elif not keeping.slots:
            ways = ways[:1]
        forms = [self._whole(keeping, way) for way in ways]
        ahead = self._ahead(keeping, one_pass, most)
        if self.is_fixed and forms and forms[0].mapping is not RowMapping.CLUSTER:
            return (*ahead, *forms)
        lanes = MOST_OUTER_LANES if self.is_outer else self._loop_lanes
        return (*ahead, *forms, replace(self, lanes=lanes).looping(streaming))

    def comes_ahead(self, with_sums: bool) -> bool:
        """Whether rows of that length should come ahead."""
        is_among = self.is_fixed and self.columns in (SUMMING_AHEAD if with_sums else AHEAD)
        item_bytes = ACCESS_BYTES // self.vector
        return is_among and item_bytes in AHEAD_BYTES and self.device is not None

    def _ahead(
        self, keeping: RowProgram, one_pass: RowProgram | None, most: int
    ) -> tuple[RowForm, ...]:
        """The form in which rows come ahead, where it is worth it: with as few exchanges as can
        be, as nothing else is done in a multiprocessor meanwhile."""
        if not self.comes_ahead(bool(keeping.sums)) or self.device is None:
            return ()
        rows = keeping.domain.rows.constant
        ways = self._summing_ahead_ways(most) if keeping.sums else self._ahead_ways(most)
        for way in ways:
            if way.lanes * way.most < self.columns:
                continue
            form = self._whole(keeping, way)
            most_rows = self.device.processors * form.rows_a_block // form.cluster
            if rows is not None and rows <= most_rows:
                return ()  # no block ever has another row
            form = _with_few_exchanges(form, one_pass)
            ahead = rows_ahead.ahead_of(form.program, form, self.vector, self.device.shared_memory)
            return (replace(form, ahead=ahead),) if ahead else ()
        return ()

    def _ahead_ways(self, most: int) -> Iterator[_Way]:
        """The same where rows come ahead: each block fills a multiprocessor."""
        if most < LEAST_AHEAD_COLUMNS:
            return
        few = min(most, AHEAD_COLUMNS)
        yield _Way(RowMapping.BLOCK, AHEAD_THREADS, AHEAD_THREADS, few)
        for blocks in (2, 4, WIDEST_CLUSTER):
            yield _Way(RowMapping.CLUSTER, blocks * AHEAD_THREADS, AHEAD_THREADS, few)
        yield _Way(RowMapping.CLUSTER, WIDEST_CLUSTER * AHEAD_THREADS, AHEAD_THREADS, most)

    def _summing_ahead_ways(self, most: int) -> Iterator[_Way]:
        """The same where threads keep sums over rows, too."""
        for way in self._summing_ways(most):
            if way.mapping is not RowMapping.OUTER:
                yield way
        if most <= SUMMING_COLUMNS:
            for blocks in (4, WIDEST_CLUSTER):
                lanes = blocks * SUMMING_THREADS
                yield _Way(RowMapping.CLUSTER, lanes, SUMMING_THREADS, most)

    @property
    def _loop_lanes(self) -> int:
        """Threads for a row that is read in each pass: smaller blocks share a multiprocessor better
        where there are rows enough."""
        return BLOCK_THREADS if self.rows >= MANY_ROWS else WIDEST_BLOCK

    @property
    def _mapping(self) -> RowMapping:
        if self.is_outer:
            return RowMapping.OUTER
        return RowMapping.WARP if self.lanes <= WARP else RowMapping.BLOCK

    @property
    def _threads(self) -> int:
        if self.is_outer:
            return self.lanes * OUTER_ROWS
        return max(BLOCK_THREADS, self.lanes) if self.lanes <= WARP else self.lanes

    def _ways(self, most: int) -> Iterator[_Way]:
        """The ways to share a row of which a thread keeps `most` columns, or twice that."""
        if self.is_outer:
            for lanes in (OUTER_LANES, MOST_OUTER_LANES):
                if self.is_fixed or lanes == MOST_OUTER_LANES:
                    few = max(1, most // self.vector)
                    yield _Way(RowMapping.OUTER, lanes, lanes * OUTER_ROWS, few)
            return
        if not self.is_fixed or self.columns <= WARP_COLUMNS:
            needed = _power_of_two(-(-self.columns // most))
            lanes = min(max(self.lanes, needed), WARP) if self.is_fixed else WARP
            yield _Way(RowMapping.WARP, lanes, BLOCK_THREADS, most)
        for threads in self._block_sizes(most // self.vector):
            yield _Way(RowMapping.BLOCK, threads, threads, most)
        for blocks in (2, 4, WIDEST_CLUSTER):
            if self.is_fixed or blocks == WIDEST_CLUSTER:
                yield _Way(RowMapping.CLUSTER, blocks * WIDEST_BLOCK, WIDEST_BLOCK, most)
        if self.is_fixed:
            lanes = WIDEST_CLUSTER * WIDEST_BLOCK
            yield _Way(RowMapping.CLUSTER, lanes, WIDEST_BLOCK, 2 * most)

    def _summing_ways(self, most: int) -> Iterator[_Way]:
        """The same where threads keep sums over rows. Clusters of more than two blocks were slower
        than two kernels (layer norm 32768 wide), except where a thread can keep many columns."""
        few = min(most, SUMMING_COLUMNS)
        if self.is_outer or not self.is_fixed:
            yield from self._ways(few)
            return
        if self.columns <= WARP_COLUMNS:
            vectors = _power_of_two(-(-self.columns // self.vector))
            lanes = max(self.lanes, _lanes(vectors, SUMMING_VECTORS))
            yield _Way(RowMapping.WARP, lanes, BLOCK_THREADS, few)
        for lanes in self._even_lanes(range(few // self.vector, SUMMING_VECTORS - 1, -1)):
            yield _shared(lanes, few)
        yield _shared(LEAST_WARPS * WARP, few)
        for lanes in self._even_lanes((1,)):
            yield _shared(lanes, few)
        for threads in (FEWEST_THREADS, BLOCK_THREADS, SUMMING_THREADS):
            yield _Way(RowMapping.BLOCK, threads, threads, few)
        # Of 16 bits a block with more columns was faster than two, of 32 bits slower.
        wide = _Way(RowMapping.BLOCK, SUMMING_THREADS, SUMMING_THREADS, most)
        pair = _Way(RowMapping.CLUSTER, 2 * SUMMING_THREADS, SUMMING_THREADS, few)
        yield from (wide, pair) if self.vector > 4 else (pair, wide)
        if most > few:
            for blocks in (2, 4):
                yield _Way(RowMapping.CLUSTER, blocks * SUMMING_THREADS, SUMMING_THREADS, most)

    def _block_sizes(self, most: int) -> Iterator[int]:
        """The threads of a block of its own for a row of which each may have `most` vectors: where
        it can be, all have as many, and not too few."""
        if not self.is_fixed:
            yield BLOCK_THREADS
            return
        for threads in (FEWEST_THREADS, BLOCK_THREADS, LEAST_WARPS * WARP):
            each, rest = divmod(self.columns, threads * self.vector)
            if not rest and FEW_VECTORS <= each <= most:
                yield threads
        yield from self._even_lanes(range(min(BEST_VECTORS, most), min(FEW_VECTORS, most) - 1, -1))
        yield LEAST_WARPS * WARP
        yield from (FEWEST_THREADS, BLOCK_THREADS, WIDEST_BLOCK, 2 * WIDEST_BLOCK)

    def _even_lanes(self, vectors: Iterable[int]) -> Iterator[int]:
        """How many threads, of some warps, can share a row so that each has one of these numbers of
        vectors."""
        for each in vectors:
            lanes, rest = divmod(self.columns, each * self.vector)
            if not rest and lanes % WARP == 0 and LEAST_WARPS * WARP <= lanes <= WIDEST_BLOCK:
                yield lanes

    def _whole(self, program: RowProgram, way: _Way) -> RowForm:
        vector = 1 if self.is_outer else self.vector  # neighbouring columns
        most = way.most
        if self.is_fixed:
            most = -(-self.columns // (way.lanes * vector)) * vector
        capacity = way.lanes * most
        return RowForm(
            program,
            way.mapping,
            way.lanes,
            way.threads,
            most // vector,
            most_columns=capacity,
            is_exact=self.is_fixed and capacity == self.columns,
        )


def _with_few_exchanges(form: RowForm, one_pass: RowProgram | None) -> RowForm:
    """The form with the program in which threads exchange their states least often."""
    fits = one_pass is not None and one_pass.kept_bytes <= form.program.kept_bytes
    is_even = form.is_exact and form.has_even_warps  # all states are of as many elements
    if one_pass is not None and fits and is_even and exchanges.moments_are_kept(one_pass):
        form = replace(form, program=one_pass, by_shares=True)
    return replace(form, program=exchanges.with_powers(form.program))


@dataclass(frozen=True)
class _Way:
    """Threads that share a row, and the columns that each may keep."""

    mapping: RowMapping
    lanes: int
    threads: int
    most: int


@dataclass(frozen=True)
class _Weight:
    rows: int
    columns: int


def _weighted_accesses(program: RowProgram, context: Context) -> list[tuple[int, _Weight]]:
    """For each buffer touched along the columns: its item size, and its bytes' direction. A vector
    that all rows read weighs little, as it is small."""
    domain = program.domain
    touched: list[tuple[Buffer, Integer]] = []
    for phase in program.phases:
        touched += [(x.buffer, x.offset) for x in loads_of(phase.roots)]
        touched += [(s.buffer, s.position) for s in phase.stores]
    found = []
    for buffer, position in dict.fromkeys(touched):
        if domain.column.alone not in position.symbols():
            continue
        moved = context.hints.value(buffer.bytes)
        columns = moved * (access(position, domain.column, 1) is Access.CONTIGUOUS)
        rows = moved * (access(position, domain.row, 1) is Access.CONTIGUOUS)
        found.append((buffer.dtype.itemsize, _Weight(rows if not columns else 0, columns)))
    return found


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
    return vector


def _shared(lanes: int, most: int) -> _Way:
    """A row by some warps of a block, or by all of them."""
    rows = max(1, BLOCK_THREADS // lanes)
    mapping = RowMapping.PART if rows > 1 else RowMapping.BLOCK
    return _Way(mapping, lanes, rows * lanes, most)


def _lanes(vectors: int, each: int) -> int:
    """How many threads share a row of so many vectors, a power of two, if each has so many."""
    return min(max(vectors // each, min(vectors, FEWEST_LANES)), WARP)


def _power_of_two(least: int) -> int:
    return 1 << max(least - 1, 0).bit_length()
