"""Whether and how a float32 product is split into float16 products on the tensor cores."""

from __future__ import annotations

from dataclasses import replace

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Node
from fusegen.ir.integers import ONE, ZERO, Integer
from fusegen.plan.access import Access, access
from fusegen.plan.buffers import workspace
from fusegen.plan.cost import Cost, SizeHints
from fusegen.plan.expressions import Load
from fusegen.plan.group import Context
from fusegen.plan.kernels.matrix_view import BatchDim, Major, MatrixView
from fusegen.plan.kernels.product import ProductAxes
from fusegen.plan.kernels.product_forms import WgmmaForm
from fusegen.plan.kernels.split_product import Split, SplitOperand, WideForm
from fusegen.plan.matrix_views import operand_views
from fusegen.plan.tensor_cores import BLOCK_COLUMNS, PAIR, exchange_of, neighbours_after
from fusegen.plan.tile_waves import ROWS

# Two warpgroups with 64 rows each. A thread has 64 sums of high parts, 64 of the others and 64
# promoted ones, and four tiles of 16 KB a stage.
COLUMNS = 128
DEPTH = 64
STAGES = 3
# The tensor cores' running sum is not full float32: it cuts off. Of positive numbers it loses
# 1.2e-6 if promoted every 256 of K, 2.1e-7 every 64 and 1.1e-7 every 32, which costs nothing; every
# 16 takes a fifth more time. The promoted sums are rounded as often. Above a K of 2048 that is more
# than cuBLAS's errors where it splits K because tiles are few; what rounding loses is kept there,
# which takes the product 1.45 times as long (measured on an H200).
PROMOTION = 32
MOST_ROUNDED = 2048
# As `part_alignment` in `split.cuh`.
PITCH = 8
# As `LineScale` in `split.cuh`.
SCALE_NUMBERS = 4
# A warp's rows of the accumulators, and the columns of the narrower tiles that compute them again.
FLAG_ROWS = 16
FLAG_COLUMNS = 64
# As in `wide_split.cuh`.
WIDE_ROWS, WIDE_COLUMNS = 128, 64
# Float16 products, and bytes read and written for an element of an operand.
PRODUCTS = 3
PART_BYTES = 4
# Below this K rounding the parts shows beside the rounding of the sum.
LEAST_DEPTH = 512
SPLIT_WHY = (
    "float32 operands are first written as two float16 parts each, of which the tensor cores make "
    "three products, as accurate as float32's and less work"
)


def split_product(
    node: Node, left: Load, right: Load, axes: ProductAxes, width: int | None, context: Context
) -> WgmmaForm | None:
    """The split form of a product of float32 operands, or None where there is none or it would
    take longer than the shared-memory tile under the planner's hints.

    `width` is the number of neighbouring columns that an epilogue works on together, if any.
    """
    if not left.dtype is right.dtype is DType.FLOAT32:
        return None
    if width is not None and (width % BLOCK_COLUMNS or COLUMNS % width):
        return None
    size = axes.columns.constant
    if size is not None and size % PAIR:
        return None
    if not _pays(axes, context):
        return None
    stem = context.buffers[node].name
    taken = {buffer.name for buffer in context.buffers.values()}
    left_split = _operand(left, axes, axes.rows, f"{stem}_left", taken)
    right_split = _operand(right, axes, axes.columns, f"{stem}_right", taken)
    row_tiles = (axes.rows + (ROWS - 1)) // ROWS
    column_tiles = (axes.columns + (COLUMNS - 1)) // COLUMNS
    flags = workspace(
        f"{stem}_flags",
        (
            axes.batches,
            row_tiles * (ROWS // FLAG_ROWS),
            column_tiles * (COLUMNS // FLAG_COLUMNS),
        ),
        DType.UINT8,
        taken,
    )
    left_view, right_view = (_view(side, axes.batch) for side in (left_split, right_split))
    exchange = exchange_of(right_view, axes.columns, node.dtype)
    neighbours = neighbours_after(exchange, node.dtype)
    wide = _wide_form(left, right, axes, width)
    tiles = context.hints.value(axes.batches * row_tiles * column_tiles)
    is_deep = context.hints.value(axes.depths) > MOST_ROUNDED
    is_compensated = is_deep and tiles <= context.device.processors
    # An epilogue over more than an element needs all of a tile's.
    few_apart = width is None
    split = Split(left_split, right_split, PROMOTION, is_compensated, few_apart, flags, wide)
    views = (left_view, right_view)
    return WgmmaForm(ROWS, COLUMNS, DEPTH, STAGES, neighbours, exchange, *views, split)


def split_cost(tile: Cost, product_flops: int, split: Split, hints: SizeHints) -> Cost:
    """The cost of a product in its split form, from that on the shared-memory tile: the parts are
    written and read again."""
    parts = hints.value(split.left.parts.bytes + split.right.parts.bytes)
    return replace(
        tile,
        reads=tile.reads + parts,
        writes=tile.writes + parts,
        plain_tile_flops=0,
        tensor_flops=PRODUCTS * product_flops,
    )


def _wide_form(left: Load, right: Load, axes: ProductAxes, width: int | None) -> WideForm | None:
    """The form for tiles that float16 parts cannot represent, or None where there is none."""
    views = operand_views(left, right, axes)
    if views is None or (width is not None and WIDE_COLUMNS % width):
        return None
    exchange = exchange_of(views[1], axes.columns, left.dtype)
    neighbours = neighbours_after(exchange, left.dtype)
    return WideForm(WIDE_ROWS, WIDE_COLUMNS, neighbours, *views)


def _pays(axes: ProductAxes, context: Context) -> bool:
    """As `split_pays` in `split.cuh`, which decides again for the sizes at hand."""
    hints, device = context.hints, context.device
    rows, columns, depths, batches = map(
        hints.value, (axes.rows, axes.columns, axes.depths, axes.batches)
    )
    products = 2 * batches * rows * columns * depths
    whole_tiles = (
        2 * batches * (-(-rows // ROWS) * ROWS) * (-(-columns // COLUMNS) * COLUMNS) * depths
    )
    prepared = 2 * PART_BYTES * batches * (rows + columns) * depths
    split = PRODUCTS * whole_tiles / device.tensor_rate + prepared / device.bandwidth
    return depths >= LEAST_DEPTH and split + 3 * device.launch < products / device.plain_tile_rate


def _operand(
    load: Load, axes: ProductAxes, lines: Integer, stem: str, taken: set[str]
) -> SplitOperand:
    is_shared = axes.batch.alone not in load.offset.symbols()
    batches = ONE if is_shared else axes.batches
    pitch = (axes.depths + (PITCH - 1)) // PITCH * PITCH
    parts = workspace(f"{stem}_parts", (Integer.of(2), batches, lines, pitch), DType.FLOAT16, taken)
    scale_shape = (batches, lines, Integer.of(SCALE_NUMBERS))
    scales = workspace(f"{stem}_scales", scale_shape, DType.FLOAT32, taken)
    is_contiguous = access(load.offset, axes.depth, 1) is Access.CONTIGUOUS
    return SplitOperand(load, is_contiguous, batches, lines, pitch, parts, scales)


def _view(operand: SplitOperand, batch: Integer) -> MatrixView:
    """The high parts; the low ones lie behind them."""
    lines = BatchDim(batch, operand.batches, operand.lines * operand.pitch)
    batches = () if operand.batches == ONE else (lines,)
    return MatrixView(operand.parts, ZERO, batches, operand.pitch, ONE, Major.DEPTH, ())
