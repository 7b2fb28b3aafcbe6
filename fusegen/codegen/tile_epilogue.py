"""The text of a product's epilogue where each element, or the tile in shared memory, is at hand."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fusegen.codegen.c_text import compute_type, stored
from fusegen.codegen.loops import scalar_load
from fusegen.codegen.row_cache import MemorySlots
from fusegen.codegen.row_loop import RowLoop
from fusegen.codegen.row_program import program_text
from fusegen.codegen.row_text import ProgramText
from fusegen.codegen.scope import Scope, stored_integers
from fusegen.codegen.statements import Statements
from fusegen.ir.dtypes import DType
from fusegen.ir.integers import Atom, Integer, Symbol
from fusegen.plan.expressions import Accumulator, Expression, certain_loads, walk
from fusegen.plan.kernels.epilogues import ElementEpilogue, Epilogue, GroupEpilogue, PartialEpilogue
from fusegen.plan.kernels.product import ProductPlan, Tile
from fusegen.plan.kernels.row_program import RowProgram
from fusegen.plan.kernels.stores import Store


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


def product_integers(plan: ProductPlan) -> tuple[Integer, ...]:
    """The integer expressions of a product's text: its axes and sizes, and those of its stores."""
    axes = plan.axes
    stores, integers = _parts(plan.epilogue)
    axis_integers = (axes.batch, axes.row, axes.column, axes.depth)
    sizes = (axes.batches, axes.rows, axes.columns, axes.depths)
    return (*axis_integers, *sizes, *stored_integers(stores), *integers)


def _parts(epilogue: Epilogue) -> tuple[tuple[Store, ...], tuple[Integer, ...]]:
    """An epilogue's stores, and further integer expressions."""
    if isinstance(epilogue, ElementEpilogue):
        return epilogue.stores, ()
    program = epilogue.program
    stores = [s for phase in program.phases for s in phase.stores] + [*program.row_stores]
    return tuple(stores), (program.domain.row, program.domain.column)


@dataclass(frozen=True)
class TileElementsText:
    """What is done with each element of a tile: statements ahead of them all, and for each."""

    ahead: tuple[str, ...] = ()
    each: tuple[str, ...] = ()


def tile_elements(
    plan: ProductPlan, epilogue: ElementEpilogue, scope: Scope, accumulator: str
) -> TileElementsText:
    """The statements for a tile's elements, of which the one at hand is `accumulator`."""
    known, ahead = batch_places(plan, epilogue, scope)
    return TileElementsText(ahead, element_lines(epilogue, known, accumulator))


def batch_places(
    plan: ProductPlan, epilogue: ElementEpilogue, scope: Scope
) -> tuple[Scope, tuple[str, ...]]:
    """`scope` with names for where a tile's batch stands in its dims, as far as its elements are
    found by that, and the statements that tell so once for the tile. What is loaded under a
    condition is left out, as sizes may be 0 where it does not hold."""
    integers = [store.position for store in epilogue.stores]
    for load in certain_loads(epilogue.values):
        integers += (load.offset, *(load.coordinates if load.buffer in scope.strided else ()))
    symbols = dict(scope.symbols)
    lines: list[str] = []
    for atom in (atom for value in integers for monomial, _ in value.terms for atom in monomial):
        if atom not in symbols and _is_of_batch(atom, plan.axes.batch.alone):
            name = scope.names.fresh(f"batch_place_{len(lines)}")
            lines.append(f"const int64_t {name} = {scope.text(Integer.of_atom(atom))};")
            symbols[atom] = name
    return replace(scope, symbols=symbols), tuple(lines)


def _is_of_batch(atom: Atom, batch: Symbol) -> bool:
    """Whether a quotient or remainder is the same for all elements of a batch, and of no other."""
    symbols = Integer.of_atom(atom).symbols()
    return batch in symbols and all(s == batch or s.extent is None for s in symbols)


def element_lines(epilogue: ElementEpilogue, scope: Scope, accumulator: str) -> tuple[str, ...]:
    """The statements for one element of the product, which is `accumulator`."""
    known: dict[Expression, str] = {
        e: accumulator for e in walk(epilogue.values) if isinstance(e, Accumulator)
    }
    load = scalar_load(scope)
    statements = Statements(scope.names, scope.symbols, load, load, known)
    for store in epilogue.stores:
        value = statements.value(store.value)
        target = f"{scope.buffer(store.buffer)}[{scope.text(store.position)}]"
        converted = stored(value, store.value.dtype, store.buffer.dtype)
        statements.lines.append(f"{target} = {converted};")
    return statements.drain()


def row_epilogue(
    epilogue: GroupEpilogue | PartialEpilogue, tile: Tile, accumulator: DType, scope: Scope
) -> RowEpilogueText:
    """An epilogue over the rows of `tile` in shared memory."""
    pitch = tile.pitch
    slots, used = _slots(epilogue.program, accumulator, tile.rows * pitch, scope)
    is_partial = isinstance(epilogue, PartialEpilogue)
    width = tile.columns if isinstance(epilogue, PartialEpilogue) else epilogue.width
    groups = 1 if is_partial else tile.used_columns // width
    within = "first_column - tile_first_column" if is_partial else f"group * {width} + first_column"
    how = RowLoop(
        vector=1,
        slots=MemorySlots(lambda slot: f"{slots[slot].name} + tile_row * {pitch} + {within}"),
        merge=f"reduce_lanes<{epilogue.lanes}>({{}})",
    )
    program = program_text(epilogue.program, scope, how)
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
