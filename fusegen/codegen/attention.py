"""The text of attention's kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fusegen.codegen.c_text import storage_type
from fusegen.codegen.kernel_text import KernelText, aligned, contiguous, kernel_arguments
from fusegen.codegen.loops import LoadAhead, VectorLoop, element_in_memory
from fusegen.codegen.matrix_text import MatrixText, matrix_text
from fusegen.codegen.names import mentions
from fusegen.codegen.scope import Scope, stored_integers
from fusegen.codegen.statements import Statements
from fusegen.plan.expressions import Accumulator, Expression, Load, certain_loads, walk
from fusegen.plan.kernels.attention import FRAGMENT, RUN, STAGES, AttentionPlan, AttentionTile
from fusegen.plan.kernels.matrix_view import Major
from fusegen.plan.kernels.product import ACCESS_BYTES
from fusegen.plan.tile_waves import SWIZZLE_BYTES

# A warpgroup's warps.
WARPGROUP = 4


@dataclass(frozen=True)
class NeighboursText:
    """What is done with some neighbouring elements: statements around and inside a loop over them,
    of which the variable is `variable`."""

    variable: str
    before: tuple[str, ...]
    body: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def _lines(self) -> tuple[str, ...]:
        return (*self.before, *self.body, *self.after)

    @property
    def needs_variable(self) -> bool:
        """Whether each element's own place occurs in the text."""
        return mentions(self._lines, self.variable)

    @property
    def needs_row(self) -> bool:
        """Whether the row occurs in the text."""
        return mentions(self._lines, "row")

    @property
    def needs_first(self) -> bool:
        """Whether the first element's place occurs in the text."""
        return self.needs_variable or mentions(self._lines, f"first_{self.variable}")


@dataclass(frozen=True)
class OperandText:
    """An operand: its tile's type, how many `lines` it has, its element at the loop variables
    `line` and `depth`, and where it lies as a matrix, if it is one."""

    tile: str
    lines: str
    line: str
    depth: str
    element: str
    matrix: MatrixText | None

    @property
    def neighbours(self) -> str:
        """Which neighbours in the tile are neighbours in memory."""
        return self.matrix.neighbours if self.matrix else "in_depth"


@dataclass(frozen=True)
class Form:
    """A way to multiply: what tells the kernel's name from others, what its comment says, the
    condition for compiling it, the types of its tiles and of its shared memory, and its device
    function. One that `is_whole` is for operands that are read 16 bytes at a time alone."""

    suffix: str
    comment: str
    guard: str
    type: str
    memory: str
    function: str
    is_whole: bool


BY_WARPS = Form(
    "",
    "This form is for all tensor cores.",
    "",
    "MmaTile",
    "FUSEGEN_DYNAMIC_SHARED",
    "mma_attention",
    is_whole=False,
)
BY_WARPGROUPS = Form(
    "warpgroup_",
    "This form is for Hopper's tensor cores.",
    "FUSEGEN_HAS_WGMMA",
    "WgmmaTile",
    "FUSEGEN_TILE_SHARED",
    "wgmma_attention",
    is_whole=True,
)


@dataclass(frozen=True)
class FormText:
    """A kernel of attention: its form and tile, with the `counts` of what a block has, its
    parameters and the launcher's arguments beside those of the operands, and what is done with
    scores, for which there are `early` loads, and with results. Sizes are in elements."""

    form: Form
    tile: AttentionTile
    counts: tuple[int, ...]
    shared_bytes: int
    parameters: tuple[str, ...]
    arguments: tuple[str, ...]
    batches: str
    rows: str
    keys: str
    depths: str
    columns: str
    operands: tuple[OperandText, OperandText, OperandText]
    early: tuple[LoadAhead, ...]
    score: NeighboursText
    results: NeighboursText

    @property
    def early_needs_row(self) -> bool:
        """Whether the row occurs in what is loaded ahead."""
        return mentions(tuple(load.value for load in self.early), "row")

    @property
    def has_matrices(self) -> bool:
        """Whether the operands are matrices, if their strides allow it."""
        return all(operand.matrix for operand in self.operands)

    @property
    def whole(self) -> tuple[str, ...]:
        """The launcher's conditions for accesses of 16 bytes of the operands."""
        matrices = (operand.matrix for operand in self.operands)
        return tuple(
            condition
            for matrix in matrices
            if matrix
            for condition in (*matrix.conditions, f"{matrix.stride} < stride_limit")
        )


@dataclass(frozen=True)
class AttentionText:
    """What the skeleton `attention.cu.j2` fills in. `in_vectors` are the conditions on the tensors
    at hand for wide accesses to what is not multiplied. A thread has scores of `run` neighbouring
    keys, and results of `pair` neighbouring columns."""

    kernel: KernelText
    type: str
    run: int
    pair: int
    in_vectors: tuple[str, ...]
    by_warps: FormText
    by_warpgroups: FormText

    @property
    def order(self) -> str:
        """How the keys of a tile stand in shared memory."""
        return "by_lanes" if self.run == RUN else "as_is"


def attention_text(plan: AttentionPlan) -> AttentionText:
    """Fill the skeleton from the plan."""
    host = _scope(plan, plan.values)
    own = _scope(plan, (plan.score, *plan.epilogue.values))
    by_warps, by_warpgroups = plan.warp_tile, plan.warpgroup_tile
    text = _form(
        plan,
        BY_WARPS,
        by_warps,
        (by_warps.warp_rows // FRAGMENT, by_warps.warps),
        _shared_bytes(plan, by_warps, _padded_bytes),
        host,
        host,
    )
    return AttentionText(
        KernelText.of(plan, host),
        storage_type(plan.queries.buffer.dtype),
        plan.run,
        plan.pair,
        _in_vectors(plan, own, host, text),
        text,
        _form(
            plan,
            BY_WARPGROUPS,
            by_warpgroups,
            (by_warpgroups.warps // WARPGROUP,),
            _shared_bytes(plan, by_warpgroups, _swizzled_bytes),
            own,
            host,
        ),
    )


def _scope(plan: AttentionPlan, values: tuple[Expression, ...]) -> Scope:
    axes = plan.axes
    variables = (axes.batch, axes.row, axes.key, axes.depth, axes.column)
    sizes = (axes.batches, axes.rows, axes.keys, axes.depths, axes.columns)
    integers = (*variables, *sizes, *stored_integers(plan.epilogue.stores))
    return Scope.of(plan.name, values, plan.written, integers)


def _form(
    plan: AttentionPlan,
    form: Form,
    tile: AttentionTile,
    counts: tuple[int, ...],
    shared_bytes: int,
    scope: Scope,
    host: Scope,
) -> FormText:
    axes = plan.axes
    early = _early(plan, scope)
    return FormText(
        form,
        tile,
        counts,
        shared_bytes,
        scope.parameters,
        kernel_arguments(scope, host),
        scope.text(axes.batches),
        scope.text(axes.rows),
        scope.text(axes.keys),
        scope.text(axes.depths),
        scope.text(axes.columns),
        _operands(plan, form, scope, host),
        tuple(early.values()),
        _score(plan, scope, early),
        _results(plan, scope),
    )


def _operands(
    plan: AttentionPlan, form: Form, scope: Scope, host: Scope
) -> tuple[OperandText, OperandText, OperandText]:
    texts = [
        matrix_text(name, view, scope, host) if view else None
        for name, view in zip(("query", "key", "value"), plan.views or (None,) * 3, strict=True)
    ]
    elements = ["" if form.is_whole else element_in_memory(load, scope) for load in plan.operands]
    return (
        OperandText("Queries", "rows", "row", "depth", elements[0], texts[0]),
        OperandText("Keys", "keys", "key", "depth", elements[1], texts[1]),
        OperandText("Values", "columns", "column", "key", elements[2], texts[2]),
    )


def _early(plan: AttentionPlan, scope: Scope) -> dict[Load, LoadAhead]:
    """The loads of whole vectors that are made while the products are."""
    loop = _over_keys(plan, scope, ahead=True)
    found = {}
    for load in certain_loads((plan.score,)):
        if loop.is_contiguous(load.offset) and load not in found:
            loop.load(load)
            found[load] = loop.loads[-1]
    return found


def _over_keys(plan: AttentionPlan, scope: Scope, *, ahead: bool = False) -> VectorLoop:
    return VectorLoop(scope, plan.axes.key, "first_key", plan.run, (plan.axes.keys,), ahead=ahead)


def _score(plan: AttentionPlan, scope: Scope, early: Mapping[Load, LoadAhead]) -> NeighboursText:
    loop = _over_keys(plan, scope)
    loop.vectors = {load: f"met.{text.name}" for load, text in early.items()}
    statements = _statements(loop, (plan.score,), "scores[element]")
    statements.lines.append(f"scores[element] = {statements.value(plan.score)};")
    body = statements.drain()
    return NeighboursText("key", tuple(loop.before), body, tuple(loop.after))


def _results(plan: AttentionPlan, scope: Scope) -> NeighboursText:
    axes = plan.axes
    loop = VectorLoop(scope, axes.column, "first_column", plan.pair, (axes.columns,))
    statements = _statements(loop, plan.epilogue.values, "results[element]")
    for store in plan.epilogue.stores:
        statements.lines.append(loop.store(store, statements.value(store.value)))
    body = statements.drain()
    return NeighboursText("column", tuple(loop.before), body, tuple(loop.after))


def _statements(loop: VectorLoop, roots: tuple[Expression, ...], product: str) -> Statements:
    known: dict[Expression, str] = {e: product for e in walk(roots) if isinstance(e, Accumulator)}
    return Statements(
        loop.scope.names,
        loop.scope.symbols,
        loop.load,
        loop.guarded_load,
        known,
        choice=loop.choice,
        condition=loop.condition,
    )


def _in_vectors(plan: AttentionPlan, own: Scope, host: Scope, text: FormText) -> tuple[str, ...]:
    """The conditions for accesses of whole vectors of what is met, and of the results."""
    packed = tuple(contiguous(host, buffer) for buffer in own.strided)
    vectors = aligned(host, own.loads, plan.run) + aligned(host, own.stores, plan.pair)
    needs_keys = text.early or text.score.needs_first
    keys = (f"{host.factor(plan.axes.keys)} % {plan.run} == 0",) if needs_keys else ()
    return (*packed, *vectors, *keys)


def _shared_bytes(
    plan: AttentionPlan, tile: AttentionTile, bytes_of: Callable[[int, int], int]
) -> int:
    """The tiles of the queries, and of keys and values for each stage; `bytes_of` so many rows of
    so many bytes."""
    majors = [view.major for view in plan.views] if plan.views else [Major.DEPTH] * 3
    sizes = ((tile.rows, tile.depth), (tile.keys, tile.depth), (tile.columns, tile.keys))
    itemsize = plan.queries.buffer.dtype.itemsize
    queries, keys, values = (
        bytes_of(lines, depth * itemsize)
        if major is Major.DEPTH
        else bytes_of(depth, lines * itemsize)
        for major, (lines, depth) in zip(majors, sizes, strict=True)
    )
    return queries + STAGES * (keys + values)


def _padded_bytes(rows: int, row_bytes: int) -> int:
    return rows * (row_bytes + ACCESS_BYTES)


def _swizzled_bytes(rows: int, row_bytes: int) -> int:
    return rows * -(-row_bytes // SWIZZLE_BYTES) * SWIZZLE_BYTES
