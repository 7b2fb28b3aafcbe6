"""The text of a matrix product's kernel."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.codegen.c_text import compute_type, loaded, stored
from fusegen.codegen.kernel_text import KernelText
from fusegen.codegen.loops import scalar_load
from fusegen.codegen.phases import MemorySlots, ProgramText, program_text
from fusegen.codegen.scope import Scope, stored_integers
from fusegen.codegen.statements import Statements
from fusegen.codegen.tensor_product import TensorProductText, tensor_product_text
from fusegen.ir.dtypes import DType
from fusegen.ir.integers import Integer
from fusegen.plan.expressions import Accumulator, Expression, walk
from fusegen.plan.kernels import (
    ElementEpilogue,
    GroupEpilogue,
    PartialEpilogue,
    ProductPlan,
    RowProgram,
    Store,
)

THREADS = 256
THREAD_COLUMNS = 16


@dataclass(frozen=True)
class TileSlot:
    """A tile's worth of values in shared memory: name, type and where it starts."""

    name: str
    type: str
    offset: int


@dataclass(frozen=True)
class RowEpilogueText:
    """An epilogue over the tile's rows: `row` and the bounds of its columns as expressions.

    `groups` rows of the program lie beside each other in a row of the tile, each `width` wide.
    """

    program: ProgramText
    slots: tuple[TileSlot, ...]
    shared_bytes: int
    pitch: int
    lanes: int
    groups: int
    width: int
    is_partial: bool


@dataclass(frozen=True)
class ProductText:
    """What the skeleton `product.cu.j2` fills in."""

    kernel: KernelText
    accumulator: str
    batches: str
    rows: str
    columns: str
    depths: str
    tile_rows: int
    tile_columns: int
    used_columns: int
    tile_depth: int
    left: str
    right: str
    left_depth_contiguous: bool
    right_depth_contiguous: bool
    element_lines: tuple[str, ...]
    epilogue: RowEpilogueText | None
    tensor: TensorProductText | None
    threads: int = THREADS
    thread_columns: int = THREAD_COLUMNS


def product_text(plan: ProductPlan) -> ProductText:
    """Fill the skeleton from the plan."""
    axes, epilogue = plan.axes, plan.epilogue
    _, values, _ = _parts(epilogue)
    scope = Scope.of((plan.left, plan.right, *values), plan.written, _integers(plan))
    accumulator = compute_type(plan.accumulator)
    load = scalar_load(scope)
    element_lines: tuple[str, ...] = ()
    row_epilogue = None
    if isinstance(epilogue, ElementEpilogue):
        element_lines = _element_lines(epilogue, scope)
    else:
        row_epilogue = _row_epilogue(plan, epilogue, scope)
    return ProductText(
        KernelText.of(plan, scope),
        accumulator,
        scope.text(axes.batches),
        scope.text(axes.rows),
        scope.text(axes.columns),
        scope.text(axes.depths),
        plan.tile.rows,
        plan.tile.columns,
        plan.tile.used_columns,
        plan.tile.depth,
        loaded(load(plan.left), plan.left.dtype),
        loaded(load(plan.right), plan.right.dtype),
        plan.left_depth_contiguous,
        plan.right_depth_contiguous,
        element_lines,
        row_epilogue,
        _tensor_form(plan, scope),
    )


def _tensor_form(plan: ProductPlan, host: Scope) -> TensorProductText | None:
    if plan.tensor_cores is None:
        return None
    _, values, _ = _parts(plan.epilogue)
    inner = Scope.of(values, plan.written, _integers(plan), is_packed=True)
    return tensor_product_text(plan, plan.tensor_cores, inner, host)


def _integers(plan: ProductPlan) -> tuple[Integer, ...]:
    axes = plan.axes
    stores, _, integers = _parts(plan.epilogue)
    axis_integers = (axes.batch, axes.row, axes.column, axes.depth)
    sizes = (axes.batches, axes.rows, axes.columns, axes.depths)
    return (*axis_integers, *sizes, *stored_integers(stores), *integers)


def _parts(
    epilogue: ElementEpilogue | GroupEpilogue | PartialEpilogue,
) -> tuple[tuple[Store, ...], tuple[Expression, ...], tuple[Integer, ...]]:
    """An epilogue's stores, values, and further integer expressions."""
    if isinstance(epilogue, ElementEpilogue):
        return epilogue.stores, tuple(s.value for s in epilogue.stores), ()
    program = epilogue.program
    stores = [s for phase in program.phases for s in phase.stores] + [*program.row_stores]
    return tuple(stores), program.values, (program.domain.row, program.domain.column)


def _element_lines(epilogue: ElementEpilogue, scope: Scope) -> tuple[str, ...]:
    values = tuple(store.value for store in epilogue.stores)
    known: dict[Expression, str] = {
        e: "accumulators[i][j]" for e in walk(values) if isinstance(e, Accumulator)
    }
    load = scalar_load(scope)
    statements = Statements(scope.names, scope.symbols, load, load, known)
    for store in epilogue.stores:
        value = statements.value(store.value)
        target = f"{scope.buffer(store.buffer)}[{scope.text(store.position)}]"
        converted = stored(value, store.value.dtype, store.buffer.dtype)
        statements.lines.append(f"{target} = {converted};")
    return statements.drain()


def _row_epilogue(
    plan: ProductPlan, epilogue: GroupEpilogue | PartialEpilogue, scope: Scope
) -> RowEpilogueText:
    tile = plan.tile
    pitch = tile.pitch
    slots, used = _slots(epilogue.program, plan.accumulator, tile.rows * pitch, scope)
    is_partial = isinstance(epilogue, PartialEpilogue)
    width = tile.columns if isinstance(epilogue, PartialEpilogue) else epilogue.width
    groups = 1 if is_partial else tile.used_columns // width
    within = "first_column - tile_first_column" if is_partial else f"group * {width} + first_column"
    program = program_text(
        epilogue.program,
        scope,
        vector=1,
        slots=MemorySlots(lambda slot: f"{slots[slot].name} + tile_row * {pitch} + {within}"),
        merge=f"reduce_lanes<{epilogue.lanes}>({{}})",
    )
    return RowEpilogueText(program, slots, used, pitch, epilogue.lanes, groups, width, is_partial)


def _slots(
    program: RowProgram, accumulator: DType, elements: int, scope: Scope
) -> tuple[tuple[TileSlot, ...], int]:
    """The slots, of which the first holds the product's tile, and the bytes they take."""
    slots = []
    offset = 0
    for number, dtype in enumerate(program.slots or (accumulator,)):
        name = "tile" if number == 0 else scope.names.fresh(f"tile_{number}")
        offset = -(-offset // 16) * 16
        slots.append(TileSlot(name, compute_type(dtype), offset))
        offset += elements * dtype.itemsize
    return tuple(slots), offset
