"""Row kernels: reductions along rows, and the ways to map rows to threads."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from fusegen.ir.integers import Integer
from fusegen.plan.buffers import Buffer
from fusegen.plan.expressions import Expression, Load
from fusegen.plan.kernels.base import KernelPlan
from fusegen.plan.kernels.row_program import RowProgram


class RowMapping(Enum):
    """Which threads share a row."""

    WARP = "a part of a warp a row"
    PART = "a part of a block a row"
    BLOCK = "a block a row"
    CLUSTER = "a cluster of blocks a row"
    OUTER = "neighbouring threads on neighbouring rows"  # for columns that lie far apart


# Half the threads of a multiprocessor, which leaves each 64 registers, and the bytes of half those.
BUSY_THREADS = 1024
BUSY_BYTES = 128
# Other numbers where the warps of a row are no power of two: an exchange then takes some registers
# more, and with 72 no thread of a layer norm spills (5120 columns by nvcc 13.0). Two phases do with
# 56 (docs/notes/memory-bound.md).
UNEVEN_BUSY_THREADS = 896
UNEVEN_BUSY_THREADS_IN_TWO_PHASES = 1152
# The registers of a multiprocessor, and the most of a thread (CUDA programming guide, compute
# capabilities).
REGISTERS = 1 << 16
MOST_REGISTERS = 255
# What one copy brings (PTX ISA, "cp.async" with the cache operator .cg).
COPY_BYTES = 16
# Where a thread keeps sums over rows beside a row: 128 registers each.
SUMMING_THREADS = 512


@dataclass(frozen=True)
class Ahead:
    """What a thread copies to shared memory of the `rows` that come next, while it works on one:
    its own vectors of `loads`, 16 bytes each. It alone reads them back, so no barrier is needed.
    Of the next row alone it loads the numbers `scalars`, one of each a row, to registers. The
    vectors of `resident` and of `shared` are the same in every row, and stay in registers and in
    shared memory."""

    rows: int
    loads: tuple[Load, ...]
    scalars: tuple[Load, ...] = ()
    resident: tuple[Load, ...] = ()
    shared: tuple[Load, ...] = ()


@dataclass(frozen=True)
class RowForm:
    """One way to work on rows of at most `most_columns`, or of any length.

    `lanes` threads share a row and a block has `threads` of them; where a row has more, as many
    neighbouring blocks are a cluster. A thread handles `steps` vectors of neighbouring columns
    at once, in registers: its whole share of a row of at most `most_columns`, so that what one
    phase keeps for the next stays there. `is_exact` tells that every row fills all of them.
    With `piece_lanes`, a row is in pieces of as many columns as so many threads handle, one after
    the other; else all threads' first vectors lie side by side, then all second ones.
    Where rows are exact, with `by_shares` moments are taken of all that a thread has of a row at
    once. With `ahead` the grid has as many blocks or clusters as the device runs at once, and each
    works through its rows, which come ahead; only whole vectors of packed tensors can be copied so.
    The loads in `early` are those of later phases that are made with the first one's.
    """

    program: RowProgram
    mapping: RowMapping
    lanes: int
    threads: int
    steps: int
    most_columns: int | None = None
    is_exact: bool = False
    ahead: Ahead | None = None
    by_shares: bool = False
    piece_lanes: int | None = None
    early: tuple[Load, ...] = ()

    @property
    def rows_a_block(self) -> int:
        """How many rows a block works on at once."""
        return max(1, self.threads // self.lanes)

    @property
    def least_blocks(self) -> int:
        """How many blocks a multiprocessor should hold, which bounds a thread's registers: where
        what is kept takes half of them."""
        if self.most_columns is None:
            return 1
        if self.program.sums:
            return max(1, SUMMING_THREADS // self.threads)
        if self.most_columns // self.lanes * self.program.kept_bytes > BUSY_BYTES:
            return 1
        if self.has_even_warps:
            return max(1, BUSY_THREADS // self.threads)
        is_short = len(self.program.phases) <= 2
        busy = UNEVEN_BUSY_THREADS_IN_TWO_PHASES if is_short else UNEVEN_BUSY_THREADS
        return max(1, busy // self.threads)

    @property
    def has_even_warps(self) -> bool:
        """Whether the threads that share a row are a power of two."""
        return self.lanes & (self.lanes - 1) == 0

    @property
    def sum_bytes(self) -> int:
        """The shared memory in which a block adds what its rows have for the same sums."""
        if self.rows_a_block == 1 or self.most_columns is None:
            return 0
        widest = max((s.buffer.dtype.itemsize for s in self.program.sums), default=0)
        return self.rows_a_block * self.most_columns * widest

    @property
    def registers(self) -> int:
        """How many a thread may have."""
        return min(MOST_REGISTERS, REGISTERS // (self.threads * self.least_blocks))

    @property
    def cluster(self) -> int:
        """How many blocks share a row."""
        return max(1, self.lanes // self.threads)

    @property
    def ahead_bytes(self) -> int:
        """The shared memory of a block for rows that come ahead."""
        if self.ahead is None:
            return 0
        copies = self.ahead.rows * len(self.ahead.loads) + len(self.ahead.shared)
        return copies * self.steps * self.threads * COPY_BYTES


@dataclass(frozen=True)
class RowPlan(KernelPlan):
    """Reductions along rows, with what comes before and after them.

    The launcher takes the first of `forms` that fits the rows and the device; the last one always
    does. Each thread handles `vector` neighbouring columns at a time, or fewer where that does not
    divide the columns or one of the sizes `even`. With `parts` above 1, that
    many blocks share a row and leave partial states, which a second kernel merges in a fixed order.
    A program with sums over rows is launched as `blocks` blocks, or clusters, whatever the rows:
    each thread then meets the same columns again in every row that it works on. Each block leaves
    `sum_rows` rows of sums, having added what its threads have for the same one.
    """

    forms: tuple[RowForm, ...]
    vector: int
    even: tuple[Integer, ...] = ()
    parts: int = 1
    blocks: int | None = None
    sum_rows: int = 1

    @property
    def program(self) -> RowProgram:
        """What the first form does: the others differ from it in what they keep."""
        return self.forms[0].program

    @property
    def written(self) -> tuple[Buffer, ...]:
        """The buffers it fills."""
        return self.program.written

    @property
    def values(self) -> tuple[Expression, ...]:
        """What its forms compute."""
        return tuple(value for form in self.forms for value in form.program.values)
