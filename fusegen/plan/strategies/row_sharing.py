"""The ways in which threads share a row that they keep: parts of a warp, of a block or of a cluster
of blocks, and how many columns each thread has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fusegen.plan.kernels.base import WARP
from fusegen.plan.kernels.rows import SUMMING_THREADS, RowMapping
from fusegen.plan.strategies.row_layout import (
    BEST_VECTORS,
    BLOCK_THREADS,
    FEWEST_THREADS,
    MOST_OUTER_LANES,
    OUTER_LANES,
    OUTER_ROWS,
    WARP_COLUMNS,
    WIDEST_BLOCK,
    Layout,
    lanes_of,
    power_of_two,
)

# Blocks of a cluster: 8 are the most that every device with clusters takes (CUDA programming
# guide, thread block clusters).
WIDEST_CLUSTER = 8
# The least warps that share a row by way of shared memory.
LEAST_WARPS = 2
# With fewer vectors a thread, blocks of other sizes are better.
FEW_VECTORS = 3
# Whole vectors of a short row that a thread has best where it keeps sums over rows, too
# (docs/notes/memory-bound.md, short rows).
SUMMING_VECTORS = 2
# The columns that a thread then takes if there are threads enough: fewer threads with more were
# slower (a backward of RMS norm 4096 wide: 0.35 ms against 0.28).
SUMMING_COLUMNS = 16
# Blocks of so many threads, or clusters of those, take rows that come ahead. A thread keeps so many
# columns: half as many of 32 bits leave room for two rows, but make clusters twice as large, and
# most chains slower (docs/notes/memory-bound.md).
AHEAD_THREADS = 1024
AHEAD_COLUMNS = 32
# The least columns that each thread may keep.
LEAST_AHEAD_COLUMNS = 16


@dataclass(frozen=True)
class Sharing:
    """`lanes` threads that share a row, of blocks of `threads`, and the most columns that each may
    keep."""

    mapping: RowMapping
    lanes: int
    threads: int
    most: int

    @property
    def columns(self) -> int:
        """The most that a row may have."""
        return self.lanes * self.most


def sharings(layout: Layout, most: int) -> Iterator[Sharing]:
    """The ways to share a row of which a thread keeps `most` columns, or twice that; those for the
    shortest rows first."""
    if layout.is_outer:
        for lanes in (OUTER_LANES, MOST_OUTER_LANES):
            if layout.is_fixed or lanes == MOST_OUTER_LANES:
                few = max(1, most // layout.vector)
                yield Sharing(RowMapping.OUTER, lanes, lanes * OUTER_ROWS, few)
        return
    if not layout.is_fixed or layout.columns <= WARP_COLUMNS:
        needed = power_of_two(-(-layout.columns // most))
        lanes = min(max(layout.lanes, needed), WARP) if layout.is_fixed else WARP
        yield Sharing(RowMapping.WARP, lanes, BLOCK_THREADS, most)
    if not layout.is_fixed:  # between a warp and a block, half of whose threads would be idle
        yield _by_warps(LEAST_WARPS * WARP, most)
    for threads in _block_sizes(layout, most // layout.vector):
        yield _by_block(threads, most)
    for blocks in (2, 4, WIDEST_CLUSTER):
        if layout.is_fixed or blocks == WIDEST_CLUSTER:
            yield _by_cluster(blocks, WIDEST_BLOCK, most)
    if layout.is_fixed:
        yield _by_cluster(WIDEST_CLUSTER, WIDEST_BLOCK, 2 * most)


def summing_sharings(layout: Layout, most: int) -> Iterator[Sharing]:
    """The same where threads keep sums over rows. Clusters of more than two blocks were slower than
    two kernels (layer norm 32768 wide), except where a thread can keep many columns."""
    few = min(most, SUMMING_COLUMNS)
    if layout.is_outer or not layout.is_fixed:
        yield from sharings(layout, few)
        return
    if layout.columns <= WARP_COLUMNS:
        vectors = power_of_two(-(-layout.columns // layout.vector))
        lanes = max(layout.lanes, lanes_of(vectors, SUMMING_VECTORS))
        yield Sharing(RowMapping.WARP, lanes, BLOCK_THREADS, few)
    for lanes in _even_lanes(layout, range(few // layout.vector, SUMMING_VECTORS - 1, -1)):
        yield _by_warps(lanes, few)
    yield _by_warps(LEAST_WARPS * WARP, few)
    for lanes in _even_lanes(layout, (1,)):
        yield _by_warps(lanes, few)
    for threads in (FEWEST_THREADS, BLOCK_THREADS, SUMMING_THREADS):
        yield _by_block(threads, few)
    # Of 16 bits a block with more columns was faster than two, of 32 bits slower.
    wide = _by_block(SUMMING_THREADS, most)
    pair = _by_cluster(2, SUMMING_THREADS, few)
    yield from (wide, pair) if layout.vector > 4 else (pair, wide)
    if most > few:
        for blocks in (2, 4):
            yield _by_cluster(blocks, SUMMING_THREADS, most)


def ahead_sharings(most: int) -> Iterator[Sharing]:
    """The same where rows come ahead: each block fills a multiprocessor."""
    if most < LEAST_AHEAD_COLUMNS:
        return
    few = min(most, AHEAD_COLUMNS)
    yield _by_block(AHEAD_THREADS, few)
    for blocks in (2, 4, WIDEST_CLUSTER):
        yield _by_cluster(blocks, AHEAD_THREADS, few)
    yield _by_cluster(WIDEST_CLUSTER, AHEAD_THREADS, most)


def paired_ahead_sharing(layout: Layout) -> Sharing:
    """The same where two blocks share a multiprocessor, of threads that have as many columns."""
    return _by_block(layout.columns // AHEAD_COLUMNS, AHEAD_COLUMNS)


def summing_ahead_sharings(layout: Layout, most: int) -> Iterator[Sharing]:
    """The same where threads keep sums over rows, too."""
    for sharing in summing_sharings(layout, most):
        if sharing.mapping is not RowMapping.OUTER:
            yield sharing
    if most <= SUMMING_COLUMNS:
        for blocks in (4, WIDEST_CLUSTER):
            yield _by_cluster(blocks, SUMMING_THREADS, most)


def _by_warps(lanes: int, most: int) -> Sharing:
    """A row by some warps of a block, or by all of them."""
    rows = max(1, BLOCK_THREADS // lanes)
    mapping = RowMapping.PART if rows > 1 else RowMapping.BLOCK
    return Sharing(mapping, lanes, rows * lanes, most)


def _by_block(threads: int, most: int) -> Sharing:
    return Sharing(RowMapping.BLOCK, threads, threads, most)


def _by_cluster(blocks: int, threads: int, most: int) -> Sharing:
    return Sharing(RowMapping.CLUSTER, blocks * threads, threads, most)


def _block_sizes(layout: Layout, most: int) -> Iterator[int]:
    """The threads of a block of its own for a row of which each may have `most` vectors: where it
    can be, all have as many, and not too few."""
    if not layout.is_fixed:
        yield BLOCK_THREADS
        return
    for threads in (FEWEST_THREADS, BLOCK_THREADS, LEAST_WARPS * WARP):
        each, rest = divmod(layout.columns, threads * layout.vector)
        if not rest and FEW_VECTORS <= each <= most:
            yield threads
    vectors = range(min(BEST_VECTORS, most), min(FEW_VECTORS, most) - 1, -1)
    yield from _even_lanes(layout, vectors)
    yield LEAST_WARPS * WARP
    yield from (FEWEST_THREADS, BLOCK_THREADS, WIDEST_BLOCK, 2 * WIDEST_BLOCK)


def _even_lanes(layout: Layout, vectors: Iterable[int]) -> Iterator[int]:
    """How many threads, of some warps, can share a row so that each has one of these numbers of
    vectors."""
    for each in vectors:
        lanes, rest = divmod(layout.columns, each * layout.vector)
        if not rest and lanes % WARP == 0 and LEAST_WARPS * WARP <= lanes <= WIDEST_BLOCK:
            yield lanes
