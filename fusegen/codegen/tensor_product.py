"""The text of a matrix product's form for Hopper's tensor cores."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fusegen.codegen.c_text import compute_type, storage_type, stored
from fusegen.codegen.kernel_text import aligned, contiguous, kernel_arguments
from fusegen.codegen.loops import LoadAhead, VectorLoop, scalar_load
from fusegen.codegen.names import mentions
from fusegen.codegen.operand_prologue import (
    PrologueText,
    SkippedText,
    prologue_conditions,
    prologue_texts,
    skipped_text,
)
from fusegen.codegen.row_cache import RegisterSlots
from fusegen.codegen.row_loop import RowLoop
from fusegen.codegen.row_program import program_text
from fusegen.codegen.row_text import ProgramText
from fusegen.codegen.scope import Scope
from fusegen.codegen.split_product import SplitText, split_text
from fusegen.codegen.statements import Statements
from fusegen.codegen.tensor_operands import OperandText, WindowText, operand_texts
from fusegen.codegen.tile_epilogue import batch_places
from fusegen.ir.integers import ZERO
from fusegen.plan.expressions import Accumulator, Expression, walk
from fusegen.plan.kernels.epilogues import ElementEpilogue, GroupEpilogue, PartialEpilogue
from fusegen.plan.kernels.product import ProductPlan
from fusegen.plan.kernels.product_forms import (
    Exchange,
    SharedDepth,
    TileKind,
    WaveTime,
    WgmmaForm,
)
from fusegen.plan.tensor_cores import (
    ACCESS_BYTES,
    LANES,
    PAIR,
    STAGED_BYTES,
    STAGED_ROWS,
    in_pairs,
)

# The kernel's variable that tells whether a thread's place is inside the result.
GUARD = "is_active"


@dataclass(frozen=True)
class StagedText:
    """A result that goes through shared memory: its type and pointer, and the position of an
    element as a text of `row` and `column`, by `columns` of so many `rows` at a time, of which an
    access has as many `together` at most."""

    type: str
    result: str
    position: str
    rows: int
    columns: int
    together: int

    @property
    def pitch(self) -> int:
        """Elements from row to row: an access more than the columns spreads rows over the banks."""
        return self.columns + self.together

    @property
    def warp_size(self) -> int:
        """A warp's elements."""
        return self.rows * self.pitch


@dataclass(frozen=True)
class ElementLoopText:
    """An elementwise epilogue: vectors that are loaded while the products are made, statements
    ahead of a tile's elements, and those around and inside the loop over so many neighbouring
    columns, whose results are `staged` or stored as they are."""

    neighbours: int
    staged: StagedText | None
    early: tuple[LoadAhead, ...]
    ahead: tuple[str, ...]
    before: tuple[str, ...]
    body: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def needs_column(self) -> bool:
        """Whether the variable `column` occurs in the text."""
        return mentions((*self.before, *self.body, *self.after), "column")


@dataclass(frozen=True)
class RegisterArray:
    """Values that a thread keeps from phase to phase."""

    name: str
    type: str


@dataclass(frozen=True)
class TensorProductText:
    """What the skeleton `tensor_product.cu.j2` fills in: sizes in elements.

    The kernel takes `maps`, tensor maps of its operands, before its `arguments`.
    `sizes` are the kernel's batches, rows, columns and depths. A cluster of `parts` blocks shares a
    tile's K, or as `shared` tells. `wave` is what the launcher chooses among forms by. `conditions`
    are those on the tensors at hand for taking this form. `run_time_depth` tells
    that the number of steps along K is not known when the kernel is compiled.

    A thread holds `neighbours` neighbouring columns at a time, at once if `is_by_copy`, or after
    lanes have exchanged their sums if `lanes_exchange`; where there are `pairs`, this is if there
    are whole vectors of columns, and else they do not exchange anything. An epilogue over rows
    works on `width` columns at a time, which `lanes` neighbouring threads share and of which the
    last may not be all there if it is `ragged`; `extra_slots` are the row program's slots beside
    the accumulators themselves. With `whole_columns` every tile's columns are all there.
    """

    kernel: str
    parameters: tuple[str, ...]
    maps: tuple[str, ...]
    arguments: tuple[str, ...]
    sizes: tuple[str, ...]
    rows: int
    columns: int
    own_columns: int
    depth: int
    stages: int
    fewer_lines: bool
    wave: WaveTime | None
    kind: TileKind
    shared: SharedDepth | None
    type: str
    stage_size: int
    operands: tuple[OperandText | WindowText, ...]
    conditions: tuple[str, ...]
    run_time_depth: bool
    split: SplitText | None
    elements: ElementLoopText | None
    pairs: ElementLoopText | None
    program: ProgramText | None
    neighbours: int
    lanes_exchange: bool
    is_by_copy: bool
    width: int
    lanes: int
    is_partial: bool
    ragged: bool
    whole_columns: bool
    extra_slots: tuple[RegisterArray, ...]
    prologues: tuple[PrologueText, ...]
    skipped: SkippedText | None

    @property
    def is_beside(self) -> bool:
        """Whether each warpgroup has half of a tile's columns, and not of its rows."""
        return self.own_columns < self.columns

    @property
    def own(self) -> str:
        """The kernel's constant for how many columns a warpgroup has."""
        return "own_columns" if self.is_beside else "tile_columns"

    @property
    def parts(self) -> int:
        """How many blocks of a cluster make a tile."""
        return self.kind.parts

    @property
    def staged(self) -> StagedText | None:
        """What of a tile goes through shared memory on its way out."""
        return self.elements.staged if self.elements else None

    @property
    def pairs_only(self) -> bool:
        """Whether each thread stores pairs of columns at least, so that there must be pairs."""
        return self.staged is None

    @property
    def is_line_major(self) -> bool:
        """Whether an operand comes in chunks of `chunk_lines` neighbouring lines."""
        return any(operand.is_line_major for operand in self.operands)

    @property
    def chunk_lines(self) -> int:
        """How many lines one swizzled row of shared memory holds."""
        (first, *_) = (o.box for o in self.operands if isinstance(o, OperandText))
        return first[0]


def tensor_product_text(
    plan: ProductPlan, cores: WgmmaForm, kernel: str, scope: Scope, host: Scope
) -> TensorProductText:
    """Fill the skeleton from the plan: `kernel` is the kernel's name, `scope` its own, `host` the
    launcher's."""
    epilogue, axes = plan.epilogue, plan.axes
    elements = pairs = program = None
    width = cores.columns
    extra: tuple[RegisterArray, ...] = ()
    if isinstance(epilogue, ElementEpilogue):
        is_staged = cores.exchange is Exchange.THROUGH_SHARED
        elements = (_staged_loop if is_staged else _element_loop)(plan, epilogue, scope, cores)
        pairs = _element_loop(plan, epilogue, scope, in_pairs(cores)) if cores.or_pairs else None
    else:
        extra = tuple(
            RegisterArray(scope.names.fresh(f"kept_{slot}"), compute_type(dtype))
            for slot, dtype in enumerate(epilogue.program.slots[1:], start=1)
        )
        program = _program(epilogue, scope, extra, cores.neighbours)
        width = epilogue.width
    operands = operand_texts(plan, cores, scope, host)
    return TensorProductText(
        kernel,
        scope.parameters,
        tuple(name for operand in operands for name, _ in operand.maps),
        kernel_arguments(scope, host),
        tuple(map(scope.text, (axes.batches, axes.rows, axes.columns, axes.depths))),
        cores.rows,
        cores.columns,
        cores.own_columns,
        cores.depth,
        cores.stages,
        cores.fewer_lines,
        cores.wave,
        cores.kind,
        cores.shared,
        storage_type(cores.left.buffer.dtype),
        sum(operand.tile_lines for operand in operands) * cores.depth,
        operands,
        _conditions(plan, cores, scope, host),
        plan.axes.depths.constant is None or cores.parts > 1 or cores.shared is not None,
        split_text(plan, cores.split, host, host) if cores.split else None,
        elements,
        pairs,
        program,
        cores.neighbours,
        cores.exchange is Exchange.BY_LANES,
        cores.exchange is Exchange.BY_COPY,
        width,
        _lanes(width, cores.neighbours),
        isinstance(epilogue, PartialEpilogue),
        plan.axes.columns % width != ZERO,
        plan.axes.columns % cores.columns == ZERO,
        extra,
        prologue_texts(plan, cores.left, cores.right, scope),
        skipped_text(plan, scope),
    )


def _conditions(plan: ProductPlan, cores: WgmmaForm, scope: Scope, host: Scope) -> tuple[str, ...]:
    packed = tuple(contiguous(host, buffer) for buffer in scope.loads if buffer in host.strided)
    buffers = (*scope.loads, *scope.stores)
    if not cores.split:
        operands = (cores.left.buffer, cores.right.buffer)
        vectors = aligned(host, dict.fromkeys((*operands, *buffers)), cores.neighbours)
        if cores.exchange is Exchange.THROUGH_SHARED:
            whole = dict.fromkeys((*operands, *scope.stores))
            loads = scope.loads if plan.axes.columns % PAIR == ZERO else ()
            vectors = (*aligned(host, whole, ACCESS_BYTES), *aligned(host, loads, PAIR))
        prepared = prologue_conditions(plan, cores.left, cores.right, host)
        return tuple(dict.fromkeys((*packed, *vectors, *prepared)))
    axes = plan.axes
    sizes = map(host.text, (axes.batches, axes.rows, axes.columns, axes.depths))
    return (f"split_pays({', '.join(sizes)})", *packed, *aligned(host, buffers, cores.neighbours))


def _element_loop(
    plan: ProductPlan, epilogue: ElementEpilogue, scope: Scope, cores: WgmmaForm
) -> ElementLoopText:
    neighbours = cores.neighbours
    column, multiples = plan.axes.column, (plan.axes.columns,)
    scope, ahead = batch_places(plan, epilogue, scope)
    meanwhile = VectorLoop(scope, column, "first_column", neighbours, multiples, ahead=True)
    for load in cores.early:
        meanwhile.load(load)
    early = tuple(meanwhile.loads)
    loop = VectorLoop(
        scope,
        column,
        "first_column",
        neighbours,
        multiples,
        guard=GUARD,
        exchange="exchange_columns" if cores.exchange is Exchange.OF_RESULTS else "",
        vectors={
            load: f"{text.name}[block][half]" for load, text in zip(cores.early, early, strict=True)
        },
    )
    values = tuple(store.value for store in epilogue.stores)
    element = _accumulator("block", neighbours)
    known: dict[Expression, str] = {e: element for e in walk(values) if isinstance(e, Accumulator)}
    statements = Statements(
        scope.names,
        loop.scope.symbols,
        loop.load,
        loop.guarded_load,
        known,
        choice=loop.choice,
        condition=loop.condition,
    )
    for store in epilogue.stores:  # contiguous, so that each stands behind the loop, where guarded
        assert loop.is_contiguous(store.position)
        statements.lines.append(loop.store(store, statements.value(store.value)))
    before, body, after = tuple(loop.before), statements.drain(), tuple(loop.after)
    return ElementLoopText(neighbours, None, early, ahead, before, body, after)


def _staged_loop(
    plan: ProductPlan, epilogue: ElementEpilogue, scope: Scope, cores: WgmmaForm
) -> ElementLoopText:
    """Of pairs, whose operands are loaded element by element unless there are whole pairs."""
    (store,) = epilogue.stores
    scope, ahead = batch_places(plan, epilogue, scope)
    loop = VectorLoop(scope, plan.axes.column, "first_column", PAIR, (plan.axes.columns,))
    element = _accumulator("block", PAIR)
    leaves = (e for e in walk((store.value,)) if isinstance(e, Accumulator))
    known: dict[Expression, str] = dict.fromkeys(leaves, element)
    names, symbols = scope.names, loop.scope.symbols
    if plan.axes.columns % PAIR == ZERO:
        statements = Statements(
            names,
            symbols,
            loop.load,
            loop.guarded_load,
            known,
            choice=loop.choice,
            condition=loop.condition,
        )
    else:
        load = scalar_load(loop.scope)
        statements = Statements(names, symbols, load, load, known)
    result = stored(statements.value(store.value), store.value.dtype, store.buffer.dtype)
    statements.lines.append(f"results[element] = {result};")
    itemsize = store.buffer.dtype.itemsize
    staged = StagedText(
        storage_type(store.buffer.dtype),
        scope.buffer(store.buffer),
        scope.text(store.position),
        STAGED_ROWS,
        math.gcd(STAGED_BYTES // itemsize, cores.own_columns),
        ACCESS_BYTES // itemsize,
    )
    return ElementLoopText(PAIR, staged, (), ahead, tuple(loop.before), statements.drain(), ())


def _program(
    epilogue: GroupEpilogue | PartialEpilogue,
    scope: Scope,
    extra: tuple[RegisterArray, ...],
    neighbours: int,
) -> ProgramText:
    lanes = _lanes(epilogue.width, neighbours)
    blocks = epilogue.width // (lanes * neighbours)

    def element(slot: int) -> str:
        if slot:
            return f"{extra[slot - 1].name}[block * {neighbours} + element]"
        return _accumulator(f"(group * {blocks} + block)" if blocks > 1 else "group", neighbours)

    how = RowLoop(
        vector=neighbours,
        slots=RegisterSlots(element),
        merge=f"reduce_lanes<{lanes}>({{}})",
        guard=GUARD,
    )
    return program_text(epilogue.program, scope, how)


def _accumulator(block: str, neighbours: int) -> str:
    """Where a thread's sum for the `element` of a block of four lanes' columns stands: pair by
    pair, each for two rows, of which `half` tells the one at hand (PTX ISA, register fragments of
    wgmma)."""
    if neighbours == PAIR:
        return f"accumulators[{block} * 4 + half * 2 + element]"
    first = f"{block} * {2 * neighbours}"
    return f"accumulators[{first} + element / 2 * 4 + half * 2 + element % 2]"


def _lanes(width: int, neighbours: int) -> int:
    """How many threads share a row's `width` columns."""
    return min(LANES, width // neighbours)
