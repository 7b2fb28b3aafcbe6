"""Kernel plans: frozen descriptions of what each kernel computes and how, ready to be rendered."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node
from fusegen.ir.integers import Integer
from fusegen.plan.buffers import Buffer
from fusegen.plan.cost import Cost
from fusegen.plan.evaluate import Domain
from fusegen.plan.expressions import Expression, Load, Reduced
from fusegen.plan.matrix_views import MatrixView
from fusegen.plan.tolerance import tolerant


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


@dataclass(frozen=True)
class ColumnSum:
    """Add `value` to the sum of its column over the rows that a thread works on.

    `buffer` has one sum for each column of each row that is worked on at once.
    """

    buffer: Buffer
    value: Expression


@dataclass(frozen=True)
class Kept:
    """A value that one phase computes and later ones read: it stands in the row cache's `slot`."""

    value: Expression
    slot: int


@dataclass(frozen=True)
class Phase:
    """One pass over a row's columns.

    For each column it reads `reads` from the row cache, computes, writes `writes` to the cache and
    `stores` to memory, adds to `sums`, and feeds `reductions`, whose results exist once the phase
    has ended.
    """

    reductions: tuple[Reduced, ...]
    reads: tuple[Kept, ...]
    writes: tuple[Kept, ...]
    stores: tuple[Store, ...]
    sums: tuple[ColumnSum, ...] = ()

    @property
    def roots(self) -> tuple[Expression, ...]:
        """What it computes for each column."""
        reduced = (reduction.operand for reduction in self.reductions)
        return (*reduced, *(s.value for s in self.stores), *(s.value for s in self.sums))


@dataclass(frozen=True)
class RowProgram:
    """What is done with each row: the phases, then one store of each of `row_stores` a row, or,
    where a row is worked on in parts, the states that the parts leave.

    `slots` are the types of the row cache's slots, each as wide as a row.
    """

    domain: Domain
    phases: tuple[Phase, ...]
    row_stores: tuple[Store, ...]
    states: tuple[StateStore, ...] = ()
    slots: tuple[DType, ...] = ()

    @property
    def kept_bytes(self) -> int:
        """The most bytes that are kept for a column from one phase to the next."""
        last_read = {k.value: n for n, phase in enumerate(self.phases) for k in phase.reads}
        kept = [0] * len(self.phases)
        for number, phase in enumerate(self.phases):
            for value in phase.writes:
                for end in range(number, last_read[value.value]):
                    kept[end] += value.value.dtype.compute.itemsize
        return max(kept, default=0)

    @property
    def sums(self) -> tuple[ColumnSum, ...]:
        """The sums over rows, phase by phase."""
        return tuple(s for phase in self.phases for s in phase.sums)

    @property
    def register_bytes(self) -> int:
        """The bytes that a thread holds for each column: what is kept, and its sums."""
        return self.kept_bytes + sum(s.buffer.dtype.itemsize for s in self.sums)

    @property
    def written(self) -> tuple[Buffer, ...]:
        """The buffers it fills."""
        stores = [s.buffer for phase in self.phases for s in phase.stores]
        stores += [s.buffer for s in self.row_stores]
        return (*stores, *(s.buffer for s in self.states), *(s.buffer for s in self.sums))

    @property
    def values(self) -> tuple[Expression, ...]:
        """What it computes: everything it reads hangs below these."""
        stores = [s.value for phase in self.phases for s in phase.stores]
        stores += [s.value for s in self.row_stores]
        stores += [s.value for s in self.sums]
        return (*stores, *(r for phase in self.phases for r in phase.reductions))

    @property
    def tolerant(self) -> frozenset[Expression]:
        """Its float32 values for which quicker functions will do."""
        stores = [s for phase in self.phases for s in phase.stores]
        stored = [(s.value, s.buffer.dtype) for s in (*stores, *self.row_stores)]
        states = [(s.reduction, s.accumulator) for s in self.states]
        sums = [(s.value, DType.FLOAT32) for s in self.sums]
        return tolerant((*stored, *states, *sums))


@dataclass(frozen=True)
class KernelPlan:
    """What all kernel plans state.

    `covers` are the graph nodes computed, `why` is the planner's reason for this kernel, and
    `cost` what it moves and computes.
    """

    name: str
    covers: tuple[Node, ...]
    why: str
    cost: Cost


@dataclass(frozen=True)
class ElementwisePlan(KernelPlan):
    """One thread for `vector` neighbouring elements of the `count` positions `index` runs over."""

    index: Integer
    count: Integer
    stores: tuple[Store, ...]
    vector: int

    @property
    def written(self) -> tuple[Buffer, ...]:
        """The buffers it fills."""
        return tuple(store.buffer for store in self.stores)


class RowMapping(Enum):
    """Which threads share a row."""

    WARP = "a part of a warp a row"
    BLOCK = "a block a row"
    CLUSTER = "a cluster of blocks a row"
    OUTER = "neighbouring threads on neighbouring rows"  # for columns that lie far apart


# Half the threads of a multiprocessor, which leaves each 64 registers, and the bytes of half those.
BUSY_THREADS = 1024
BUSY_BYTES = 128
# Where a thread keeps sums over rows beside a row: 128 registers each.
SUMMING_THREADS = 512


@dataclass(frozen=True)
class RowForm:
    """One way to work on rows of at most `most_columns`, or of any length.

    `lanes` threads share a row and a block has `threads` of them; where a row has more, as many
    neighbouring blocks are a cluster. A thread handles `steps` vectors of neighbouring columns
    at once, in registers: its whole share of a row of at most `most_columns`, so that what one
    phase keeps for the next stays there. `is_exact` tells that every row fills all of them.
    """

    program: RowProgram
    mapping: RowMapping
    lanes: int
    threads: int
    steps: int
    most_columns: int | None = None
    is_exact: bool = False

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
        return max(1, BUSY_THREADS // self.threads)

    @property
    def cluster(self) -> int:
        """How many blocks share a row."""
        return max(1, self.lanes // self.threads)


@dataclass(frozen=True)
class RowPlan(KernelPlan):
    """Reductions along rows, with what comes before and after them.

    The launcher takes the first of `forms` that fits the rows and the device; the last one always
    does. Each thread handles `vector` neighbouring columns at a time, or fewer where that does not
    divide the columns or one of the sizes `even`. With `parts` above 1, that
    many blocks share a row and leave partial states, which a second kernel merges in a fixed order.
    A program with sums over rows is launched as `blocks` blocks, or clusters, whatever the rows:
    each thread then meets the same columns again in every row that it works on.
    """

    forms: tuple[RowForm, ...]
    vector: int
    even: tuple[Integer, ...] = ()
    parts: int = 1
    blocks: int | None = None

    @property
    def program(self) -> RowProgram:
        """What the first form does: the others differ from it in what they keep."""
        return self.forms[0].program

    @property
    def written(self) -> tuple[Buffer, ...]:
        """The buffers it fills."""
        return self.program.written


@dataclass(frozen=True)
class Tile:
    """The block tile of a matrix product: `rows` x `columns` of the result, `depth` of K a step.

    `used_columns` of the columns are kept: the largest multiple of the group size, where an
    epilogue works on groups of columns.
    """

    rows: int
    columns: int
    depth: int
    used_columns: int

    @property
    def pitch(self) -> int:
        """Elements from row to row of a tile in shared memory: an odd number spreads a column over
        all banks."""
        return self.columns + 1


@dataclass(frozen=True)
class ElementEpilogue:
    """Each thread finishes the elements it accumulated, in registers."""

    stores: tuple[Store, ...]

    @property
    def written(self) -> tuple[Buffer, ...]:
        """The buffers it fills."""
        return tuple(store.buffer for store in self.stores)


@dataclass(frozen=True)
class GroupEpilogue:
    """The tile goes through shared memory; its rows are groups of `width` columns of the product,
    each wholly inside one tile. `lanes` threads share a group."""

    program: RowProgram
    width: int
    lanes: int

    @property
    def written(self) -> tuple[Buffer, ...]:
        """The buffers it fills."""
        return self.program.written


@dataclass(frozen=True)
class PartialEpilogue:
    """The tile leaves, for each row and each `width` of its columns, the states of reductions over
    them; the product itself is not stored. `lanes` threads share a row."""

    program: RowProgram
    width: int
    lanes: int

    @property
    def written(self) -> tuple[Buffer, ...]:
        """The buffers it fills."""
        return self.program.written


Epilogue = ElementEpilogue | GroupEpilogue | PartialEpilogue


@dataclass(frozen=True)
class ProductAxes:
    """The loop variables of a matrix product: batch, row, column and depth, over their sizes."""

    batch: Integer
    row: Integer
    column: Integer
    depth: Integer
    batches: Integer
    rows: Integer
    columns: Integer
    depths: Integer


@dataclass(frozen=True)
class SplitOperand:
    """An operand of float32 as float16 parts (`split.cuh`), which a kernel of its own prepares.

    `parts` has the high and then the low parts of `batches` matrices of `lines` lines, each packed
    along K and padded to `pitch`; `scales` has a few numbers for each line.
    """

    load: Load
    depth_contiguous: bool
    batches: Integer
    lines: Integer
    pitch: Integer
    parts: Buffer
    scales: Buffer


@dataclass(frozen=True)
class WideForm:
    """The form of a product of float32 operands whose range is wide, on Hopper's tensor cores:
    `rows` x `columns` of the result a block, from three bfloat16 parts of each element
    (`wide_split.cuh`). A thread of the epilogue holds `neighbours` columns at a time."""

    rows: int
    columns: int
    neighbours: int
    left: MatrixView
    right: MatrixView


@dataclass(frozen=True)
class Split:
    """float32 products as three of float16 parts, whose sum is taken into float32 registers every
    `promotion` of K. Where parts cannot represent what is multiplied, `flags` has marks for parts
    of a tile, which `wide` computes again, if it is there and can read the operands, and the
    shared-memory tile what is left."""

    left: SplitOperand
    right: SplitOperand
    promotion: int
    flags: Buffer
    wide: WideForm | None

    @property
    def written(self) -> tuple[Buffer, ...]:
        """The workspaces it fills."""
        return (
            self.left.parts,
            self.left.scales,
            self.right.parts,
            self.right.scales,
            self.flags,
        )


@dataclass(frozen=True)
class TensorCores:
    """The form of a product for Hopper's tensor cores: `rows` x `columns` of the result a block,
    `depth` of K a step, with `stages` steps of operands in flight. With `split` the operands are
    float16 parts of those of the product.

    Each thread of the epilogue holds `neighbours` neighbouring columns of a row at a time. wgmma
    leaves it 2; for more, the right operand's lines are exchanged within its tile.
    """

    rows: int
    columns: int
    depth: int
    stages: int
    neighbours: int
    left: MatrixView
    right: MatrixView
    split: Split | None = None


@dataclass(frozen=True)
class SkinnyForm:
    """The form of a product for few rows: a block reads `columns` columns of the right operand
    once, over the whole depth. There is one kernel for each of `rows`, the most rows it takes."""

    rows: tuple[int, ...]
    columns: int
    left: MatrixView
    right: MatrixView


@dataclass(frozen=True)
class MmaForm:
    """The form of a product for tensor cores without warpgroup products: `rows` x `columns` of the
    result a block, `depth` of K a step, with `stages` steps of operands in flight."""

    rows: int
    columns: int
    depth: int
    stages: int
    left: MatrixView
    right: MatrixView


@dataclass(frozen=True)
class ProductPlan(KernelPlan):
    """A batched matrix product on a shared-memory tile, and what is done with each element.

    `left` and `right` are the operands' elements at (batch, row, depth) and (batch, depth,
    column); the flags tell whether neighbours in depth are neighbours in memory. Where
    `tensor_cores`, `skinny` or `mma` are given, the launcher takes that form for tensors and
    devices that allow it; `narrow` stands in for `tensor_cores` where that has too few tiles for
    the device.
    """

    axes: ProductAxes
    left: Load
    right: Load
    left_depth_contiguous: bool
    right_depth_contiguous: bool
    accumulator: DType
    tile: Tile
    epilogue: Epilogue
    tensor_cores: TensorCores | None = None
    narrow: TensorCores | None = None
    skinny: SkinnyForm | None = None
    mma: MmaForm | None = None

    @property
    def written(self) -> tuple[Buffer, ...]:
        """The buffers it fills."""
        split = self.tensor_cores.split if self.tensor_cores else None
        return (*self.epilogue.written, *(split.written if split else ()))


@dataclass(frozen=True)
class Window:
    """How a convolution's kernel lies on an image, each number for rows and for columns."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]

    @property
    def taps(self) -> int:
        """How many pixels of a channel an element of the result reads."""
        return self.kernel[0] * self.kernel[1]

    def span(self, dim: int, results: int) -> int:
        """How many input pixels along a dim `results` neighbouring results read, gaps included."""
        return (results - 1) * self.stride[dim] + (self.kernel[dim] - 1) * self.dilation[dim] + 1


@dataclass(frozen=True)
class ConvolutionAxes:
    """The loop variables of a convolution, and its sizes.

    `image`, `input_channel`, `input_row` and `input_column` point into the input, `channel`,
    `input_channel`, `kernel_row` and `kernel_column` into the weight; the result has `height` x
    `width` pixels in each of `channels` channels.
    """

    image: Integer
    input_channel: Integer
    input_row: Integer
    input_column: Integer
    channel: Integer
    kernel_row: Integer
    kernel_column: Integer
    images: Integer
    input_channels: int
    input_height: Integer
    input_width: Integer
    channels: int
    height: Integer
    width: Integer


@dataclass(frozen=True)
class PixelTile:
    """The pixels of the result that a block computes at a time: at most `rows` x `columns`.

    Its warps take `warp_pixels` of them together, for `warp_channels` channels of the result.
    `slots` is how many pixels of the input, 8 channels each, that takes at most. Results that go
    through shared memory lie `stage_pitch` elements from channel to channel there.
    """

    rows: int
    columns: int
    warp_pixels: int
    warp_channels: int
    slots: int
    stage_pitch: int


@dataclass(frozen=True)
class ConvolutionPlan(KernelPlan):
    """A two-dimensional convolution on the tensor cores, and what is done with each element.

    Channels are the rows and pixels the columns of a matrix product whose depth is what an element
    reads: 8 input channels at a time for each tap. float32 numbers are pairs of float16 there,
    and tiles whose range is too wide for that are computed outside the tensor cores. A row of
    `domain` is a channel of an image of the result, its columns are the pixels. `states` are
    those of reductions over a tile's pixels of each channel. What is stored `through_shared`
    memory leaves in longer runs of pixels than a warp holds. `measured` are the values that
    statistics are taken of: each kernel that computes them must find the same bits.
    """

    axes: ConvolutionAxes
    window: Window
    input: Load
    weight: Load
    domain: Domain
    tile: PixelTile
    vector: int
    stores: tuple[Store, ...]
    states: tuple[StateStore, ...]
    measured: tuple[Expression, ...]
    through_shared: bool

    @property
    def written(self) -> tuple[Buffer, ...]:
        """The buffers it fills."""
        return (*(s.buffer for s in self.stores), *(s.buffer for s in self.states))

    @property
    def values(self) -> tuple[Expression, ...]:
        """What it computes of each element."""
        reduced = (s.reduction.operand for s in self.states)
        return (*(s.value for s in self.stores), *dict.fromkeys(reduced))


@dataclass(frozen=True)
class LibraryPlan:
    """One call of PyTorch's own kernel: `node` from the buffers `operands` to `result`."""

    node: Node
    operands: tuple[Buffer, ...]
    result: Buffer
    why: str
    cost: Cost

    @property
    def written(self) -> tuple[Buffer, ...]:
        """The buffer it fills."""
        return (self.result,)


Step = ElementwisePlan | RowPlan | ProductPlan | ConvolutionPlan | LibraryPlan


@dataclass(frozen=True)
class ModulePlan:
    """Everything one call of the module does: `steps` in order, from `arguments` to `results`.

    `graph` is what was planned, with names for sizes that are sums. `results` are the buffers
    behind its roots, in their order; `workspaces` are allocated for the call.
    """

    graph: Graph
    dtype: DType
    arguments: tuple[Buffer, ...]
    results: tuple[Buffer, ...]
    workspaces: tuple[Buffer, ...]
    steps: tuple[Step, ...]
