"""Whether and how a matrix product can use Hopper's tensor cores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fusegen.ir.dtypes import DType
from fusegen.ir.integers import ZERO, Integer
from fusegen.plan.early_loads import early_in_tile
from fusegen.plan.expressions import Accumulator, Compute, Literal, Load, WindowLoad, walk
from fusegen.plan.kernels.epilogues import ElementEpilogue, Epilogue, PartialEpilogue
from fusegen.plan.kernels.matrix_view import Major, MatrixView, OperandView, WindowView
from fusegen.plan.kernels.product import ProductAxes
from fusegen.plan.kernels.product_forms import Exchange, MmaForm, TileKind, WgmmaForm
from fusegen.plan.matrix_views import matrix_view, operand_views, window_view
from fusegen.plan.precision import Precision
from fusegen.plan.preferences import UNTUNED, Preferences, ProductShape
from fusegen.plan.tile_waves import (
    ROWS,
    SWIZZLE_BYTES,
    is_measured,
    least_depths,
    wave_time,
    worth_a_kernel,
)

TENSOR_DTYPES = (DType.FLOAT16, DType.BFLOAT16)
# As many stages as fit into shared memory beside the barriers and what is staged, each of 128 bytes
# for each row and column of a tile. Wide tiles load the least for a product; the widest has 128
# float32 sums a thread.
STAGES = {256: 4, 192: 5, 128: 6, 64: 8, 32: 10}
WIDE = max(STAGES)
# The same of tiles with half as many rows, of which each warpgroup has half of the columns.
STAGES_BESIDE = {256: 5, 192: 6, 128: 8, 64: 12}
# Among how many blocks of a cluster a tile's K may be shared out: the stages of the first one must
# have room for the float32 sums of the others.
PARTS = {256: (2,), 192: (2,), 128: (2, 4), 64: (2, 4), 32: ()}
# The copy brings so many neighbouring columns at once, where they are neighbours.
CHUNK_COLUMNS = 64
# The result's columns lie in the accumulators in blocks of 8, of which each of 4 lanes holds two
# neighbours, stored with one access: a result with an odd number of columns has none.
BLOCK_COLUMNS = 8
LANES = 4
PAIR = 2
# A thread's widest access.
ACCESS_BYTES = 16
# What goes through shared memory: so many bytes of columns at a time of the rows of each warp.
STAGED_DTYPES = (*TENSOR_DTYPES, DType.FLOAT32)
STAGED_BYTES = 128
STAGED_ROWS = 16


# Without warpgroup products: eight warps with 32 x 32 of the result each.
MMA_ROWS, MMA_COLUMNS, MMA_DEPTH, MMA_STAGES = 128, 64, 32, 3


def tensor_cores(
    left: Load,
    right: Load,
    axes: ProductAxes,
    width: int | None,
    precision: Precision,
    *,
    is_left_prepared: bool = False,
    is_right_prepared: bool = False,
) -> WgmmaForm | None:
    """The tensor-core form for these operands on the widest tiles, or None where there is none.

    `width` is the number of neighbouring columns that an epilogue works on together, if any.
    float32 operands are read as TF32, where `precision` allows it. A right operand that is prepared
    has its lines in their own order, and a left one is shared out among warpgroups by its lines.
    """
    if left.dtype is not right.dtype:
        return None
    as_tf32 = left.dtype is DType.FLOAT32 and precision is Precision.HIGH
    if left.dtype not in TENSOR_DTYPES and not as_tf32:
        return None
    views = _views(left, right, axes)
    if views is None:
        return None
    if as_tf32 and any(view.major is not Major.DEPTH for view in views):
        return None  # wgmma reads no other TF32 operands
    if width is not None and width % BLOCK_COLUMNS:
        return None
    size = axes.columns.constant
    if width is not None and size is not None and size % PAIR:
        return None
    if width is not None and isinstance(right, WindowLoad) and axes.columns % PAIR != ZERO:
        return None  # other forms would take far longer where there is an odd number
    if width is not None and WIDE % width:
        return None
    depth = SWIZZLE_BYTES // left.dtype.itemsize
    exchange = exchange_of(views[1], axes.columns, left.dtype)
    if exchange is Exchange.BY_COPY and is_right_prepared:
        exchange = Exchange.BY_LANES
    neighbours = neighbours_after(exchange, left.dtype)
    has_lines = isinstance(views[0], MatrixView) and views[0].major is Major.DEPTH
    rows = ROWS if is_left_prepared else _rows_of_tiles(right, axes)
    if rows < ROWS and width is not None and WIDE // 2 % width:
        return None
    return WgmmaForm(
        rows,
        WIDE,
        depth,
        _stages(rows)[WIDE],
        neighbours,
        exchange,
        *views,
        fewer_lines=has_lines,
    )


def _views(left: Load, right: Load, axes: ProductAxes) -> tuple[OperandView, OperandView] | None:
    """The operands as matrices, or what a convolution's kernel sees; None where one is neither."""
    left_view = _view(left, axes.row, axes)
    right_view = _view(right, axes.column, axes)
    return None if left_view is None or right_view is None else (left_view, right_view)


def _view(load: Load, line: Integer, axes: ProductAxes) -> OperandView | None:
    matrix = matrix_view(load, axes.batch, line, axes.depth)
    if matrix is not None or not isinstance(load, WindowLoad):
        return matrix
    return window_view(load, line, axes)


def _rows_of_tiles(right: Load, axes: ProductAxes) -> int:
    """A convolution of few results would leave half of a tile empty."""
    rows = axes.rows.constant
    is_half = isinstance(right, WindowLoad) and rows is not None and 2 * rows <= ROWS
    return ROWS // 2 if is_half else ROWS


def _stages(rows: int) -> Mapping[int, int]:
    """How many stages tiles of so many rows have, by their columns."""
    return STAGES if rows == ROWS else STAGES_BESIDE


def tile_forms(
    cores: WgmmaForm,
    axes: ProductAxes,
    width: int | None,
    processors: int,
    preferences: Preferences = UNTUNED,
    shared: WgmmaForm | None = None,
) -> tuple[WgmmaForm, ...]:
    """The forms that products of these axes need, the widest first, on a device with so many
    multiprocessors, and those that are preferred. They are `cores` on tiles of other widths, and
    in the end `shared`, whose K is shared through memory, if there is one.

    `width` is the number of neighbouring columns that an epilogue works on together, if any.
    """
    itemsize = cores.left.buffer.dtype.itemsize
    kinds = possible_kinds(cores, axes, width)
    forms = {kind: on_kind(cores, kind) for kind in kinds} | (
        {shared.kind: shared} if shared else {}
    )
    waves = {kind: wave_time(kind, itemsize) for kind in forms}
    if preferences.only in waves:
        kept = {preferences.only}
    else:
        figured = {kind: wave for kind, wave in waves.items() if is_measured(kind)}
        kept = {*worth_a_kernel(figured, axes, processors)}
        tuned = preferences.rows(ProductShape.of(cores, axes))
        kept |= {rows.kind for rows in tuned if rows.kind in waves}
    return tuple(replace(forms[kind], wave=wave) for kind, wave in waves.items() if kind in kept)


def on_kind(cores: WgmmaForm, kind: TileKind) -> WgmmaForm:
    """The form on tiles of that kind."""
    stages = _stages(cores.rows)[kind.columns]
    return replace(cores, columns=kind.columns, stages=stages, parts=kind.parts)


def possible_kinds(cores: WgmmaForm, axes: ProductAxes, width: int | None) -> tuple[TileKind, ...]:
    """The tiles that such a product can run on, the widest first, and of those the ones of fewest
    parts: whole epilogues, whole copies, none wider than the result needs, and parts of K that are
    worth a block, as far as it is known."""
    step = CHUNK_COLUMNS if cores.right.major is Major.LINE else 1
    widths = _stages(cores.rows)
    beside = ROWS // cores.rows
    fitting = [c for c in widths if c // beside % (width or 1) == 0 and c % step == 0]
    size = axes.columns.constant
    enough = min((c for c in fitting if size is not None and c >= size), default=WIDE)
    columns = [c for c in fitting if c <= enough]
    depths = axes.depths.constant
    return tuple(
        TileKind(c, parts)
        for c in columns
        for parts in (1, *(PARTS[c] if beside == 1 else ()))
        if depths is None or depths >= least_depths(parts, cores.left.buffer.dtype.itemsize)
    )


def mma_form(left: Load, right: Load, axes: ProductAxes, epilogue: Epilogue) -> MmaForm | None:
    """The form for tensor cores without warpgroup products, or None where there is none.

    The tile goes through shared memory for the epilogue. Beside the operands' stages there is room
    for one value of each of its elements in the 99 KB that each of these devices has.
    """
    if left.dtype is not right.dtype or left.dtype not in TENSOR_DTYPES:
        return None
    views = operand_views(left, right, axes)
    if views is None:
        return None
    if not isinstance(epilogue, ElementEpilogue):
        if len(epilogue.program.slots) > 1 or MMA_COLUMNS % epilogue.width:
            return None
        if isinstance(epilogue, PartialEpilogue) and epilogue.width != MMA_COLUMNS:
            return None
    return MmaForm(MMA_ROWS, MMA_COLUMNS, MMA_DEPTH, MMA_STAGES, *views)


def exchange_of(right: OperandView, columns: Integer, dtype: DType) -> Exchange:
    """How columns of a result of `dtype` are exchanged so that a thread holds as many neighbours as
    one access takes; there must be whole exchanges of them, but for epilogues over elements
    (`with_wide_accesses`).

    By the copy it costs nothing, but takes the two dimensions that are not left beside batches, and
    neighbours along K. Lanes do it for 16 bits, whose exchange is a transposition of 4 by 4 pairs.
    """
    if columns % (LANES * neighbours_after(Exchange.BY_COPY, dtype)) != ZERO:
        return Exchange.NONE
    is_window = isinstance(right, WindowView)
    if right.major is Major.DEPTH and not right.batches and not is_window:
        return Exchange.BY_COPY
    return Exchange.BY_LANES if dtype in TENSOR_DTYPES else Exchange.NONE


def with_wide_accesses(cores: WgmmaForm, epilogue: Epilogue, axes: ProductAxes) -> WgmmaForm | None:
    """The form in which an epilogue over elements loads and stores whole vectors: of any number of
    columns that are whole vectors, and of others where its one result goes through shared memory,
    or where it is known at run time only, if they are. None where there are no pairs of columns,
    nor a way around."""
    columns = axes.columns
    if not isinstance(epilogue, ElementEpilogue):
        return cores
    dtype = cores.left.buffer.dtype
    if cores.exchange is Exchange.NONE and dtype in TENSOR_DTYPES:
        neighbours = neighbours_after(Exchange.BY_LANES, dtype)
        are_whole = columns % neighbours == ZERO
        # What may come early, with whole vectors, had better do so.
        may_be_early = (
            columns.constant is None
            and not isinstance(cores.right, WindowView)
            and early_in_tile(epilogue.values, axes.column, columns, neighbours)
        )
        is_staged = [s.buffer.dtype in STAGED_DTYPES for s in epilogue.stores] == [True]
        if not are_whole and is_staged and not may_be_early:
            return replace(cores, exchange=Exchange.THROUGH_SHARED)
        if are_whole or columns.constant is None:
            cores = replace(
                cores, exchange=Exchange.BY_LANES, neighbours=neighbours, or_pairs=not are_whole
            )
    is_known = columns.constant is not None or isinstance(cores.right, WindowView)
    if is_known and columns % PAIR != ZERO:
        return None
    if cores.neighbours * dtype.itemsize == ACCESS_BYTES:
        early = early_in_tile(epilogue.values, axes.column, columns, cores.neighbours)
        cores = replace(cores, early=early)
    return _exchanging_results(cores, epilogue)


def _exchanging_results(cores: WgmmaForm, epilogue: ElementEpilogue) -> WgmmaForm:
    """The form in which lanes exchange results in place of sums, which are twice as many bytes,
    where an element's result does not depend on its place."""
    if cores.exchange is not Exchange.BY_LANES:
        return cores
    if any(store.buffer.dtype not in TENSOR_DTYPES for store in epilogue.stores):
        return cores
    values = walk(tuple(store.value for store in epilogue.stores))
    if any(not isinstance(value, (Accumulator, Compute, Literal)) for value in values):
        return cores
    return replace(cores, exchange=Exchange.OF_RESULTS)


def in_pairs(cores: WgmmaForm) -> WgmmaForm:
    """The form whose threads go on with the pairs that wgmma leaves them."""
    return replace(cores, exchange=Exchange.NONE, neighbours=PAIR, or_pairs=False, early=())


def neighbours_after(exchange: Exchange, dtype: DType) -> int:
    """How many neighbouring columns of a result of `dtype` a thread then holds."""
    return PAIR if exchange is Exchange.NONE else ACCESS_BYTES // dtype.itemsize
