"""What the texts of kernels share whose blocks have a tile of rows and multiply twice: their forms,
their operands' tiles, and what is done with neighbouring elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fusegen.codegen.c_text import storage_type
from fusegen.codegen.kernel_text import aligned, contiguous
from fusegen.codegen.loops import LoadAhead, VectorLoop, element_in_memory
from fusegen.codegen.matrix_text import MatrixText
from fusegen.codegen.names import mentions
from fusegen.codegen.scope import Scope
from fusegen.codegen.statements import Statements
from fusegen.plan.expressions import Expression, Load, certain_loads
from fusegen.plan.kernels.matrix_view import Major
from fusegen.plan.kernels.product import ACCESS_BYTES
from fusegen.plan.kernels.stores import Store
from fusegen.plan.tile_waves import SWIZZLE_BYTES

# Elements of no more bytes are gathered ahead.
GATHERED_BYTES = 2


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
    """An operand: its tile's type `tile`, of `tile_lines` by `tile_depth`, how many `lines` and
    `depths` it has, `sizes` in the launcher's terms, its element at the loop variables `line` and
    `depth`, and where it lies as a matrix, if it is one. The rows of a tile come `by_lanes` where
    the order is free."""

    tile: str
    tile_lines: int
    tile_depth: int
    by_lanes: bool
    lines: str
    depths: str
    sizes: tuple[str, str]
    line: str
    depth: str
    element: str
    matrix: MatrixText | None

    @property
    def neighbours(self) -> str:
        """Which neighbours in the tile are neighbours in memory."""
        return self.matrix.neighbours if self.matrix else "in_depth"

    @property
    def turned(self) -> str:
        """The same where lines are taken for depths."""
        return "in_columns" if self.neighbours == "in_depth" else "in_depth"


@dataclass(frozen=True)
class Form:
    """A way to multiply: what tells the kernel's name from others, what its comment says, the
    condition for compiling it, the types of its tiles and of its shared memory, and the name of its
    device code. One that `is_whole` is for operands that are read 16 bytes at a time alone."""

    suffix: str
    comment: str
    guard: str
    type: str
    memory: str
    function: str
    is_whole: bool


def by_warps(function: str) -> Form:
    """The form for all tensor cores."""
    comment = "This form is for all tensor cores."
    return Form("", comment, "", "MmaTile", "FUSEGEN_DYNAMIC_SHARED", function, is_whole=False)


def by_warpgroups(function: str) -> Form:
    """The form for Hopper's tensor cores."""
    return Form(
        "warpgroup_",
        "This form is for Hopper's tensor cores.",
        "FUSEGEN_HAS_WGMMA",
        "WgmmaTile",
        "FUSEGEN_TILE_SHARED",
        function,
        is_whole=True,
    )


@dataclass(frozen=True)
class RowTileText:
    """What all these kernels' texts have: their form and shared memory, their parameters and the
    launcher's arguments beside those of the operands, how many batches and rows there are, the
    operands, those of them of which one tile after another goes by a block's rows, and what is
    loaded ahead of where it is used. Sizes are in elements."""

    form: Form
    shared_bytes: int
    parameters: tuple[str, ...]
    arguments: tuple[str, ...]
    batches: str
    rows: str
    operands: tuple[OperandText, ...]
    passing: tuple[OperandText, ...]
    early: tuple[LoadAhead, ...]

    @property
    def early_needs_row(self) -> bool:
        """Whether the row occurs in what is loaded ahead."""
        return mentions(tuple(load.value for load in self.early), "row")

    @property
    def copied(self) -> tuple[OperandText, ...]:
        """The operands of which a kernel copies tiles, 16 bytes at a time: Hopper's reads others,
        and whole tiles, in bulk."""
        return self.passing if self.form.is_whole else self.operands

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


def loads_ahead(roots: tuple[Expression, ...], loop: VectorLoop) -> dict[Load, LoadAhead]:
    """The loads of whole vectors of `roots` that can be made while the products are, by a `loop`
    that loads ahead."""
    found = {}
    for load in certain_loads(roots):
        if loop.is_contiguous(load.offset) and load not in found:
            loop.load(load)
            found[load] = loop.loads[-1]
    return found


def gathers_ahead(roots: tuple[Expression, ...], loop: VectorLoop) -> dict[Load, LoadAhead]:
    """The loads of neighbours that lie apart, of which a thread can have as many as it needs in few
    registers, gathered ahead."""
    found = {}
    variable = loop.scope.symbols[loop.step.alone]
    for load in certain_loads(roots):
        if _is_gathered(load, loop) and load not in found:
            name = loop.scope.names.fresh(f"{loop.scope.buffer(load.buffer)}_gathered")
            dtype = storage_type(load.buffer.dtype)
            value = (
                f"gathered<{dtype}, vector>([&](int element) {{\n"
                f"    const int64_t {variable} = {loop.first} + element;\n"
                f"    return {element_in_memory(load, loop.scope)};\n}})"
            )
            found[load] = LoadAhead(name, dtype, value)
    return found


def _is_gathered(load: Load, loop: VectorLoop) -> bool:
    is_apart = not _is_of_row(load, loop) and not loop.is_contiguous(load.offset)
    return is_apart and load.buffer.dtype.itemsize <= GATHERED_BYTES


def loads_of_row(roots: tuple[Expression, ...], loop: VectorLoop) -> dict[Load, LoadAhead]:
    """The loads that are the same for all neighbours of a row, which a thread makes once for each
    of its rows."""
    found = {}
    for load in certain_loads(roots):
        if _is_of_row(load, loop) and load not in found:
            name = loop.scope.names.fresh(f"{loop.scope.buffer(load.buffer)}_of_row")
            dtype = storage_type(load.buffer.dtype)
            found[load] = LoadAhead(name, dtype, element_in_memory(load, loop.scope))
    return found


def _is_of_row(load: Load, loop: VectorLoop) -> bool:
    return loop.step.alone not in load.symbols


def stored_neighbours(
    loop: VectorLoop, variable: str, stores: tuple[Store, ...], known: Mapping[Expression, str]
) -> NeighboursText:
    """What stores the values that are made of what is `known` of neighbours."""
    statements = statements_of(loop, known)
    for store in stores:
        statements.lines.append(loop.store(store, statements.value(store.value)))
    body = statements.drain()
    return NeighboursText(variable, tuple(loop.before), body, tuple(loop.after))


def statements_of(
    loop: VectorLoop,
    known: Mapping[Expression, str],
    tolerant: frozenset[Expression] = frozenset(),
) -> Statements:
    """Statements inside a loop over neighbours, of which these are `known`; those `tolerant` are
    for results of 16 bits only."""
    return Statements(
        loop.scope.names,
        loop.scope.symbols,
        loop.load,
        loop.guarded_load,
        dict(known),
        tolerant=tolerant,
        choice=loop.choice,
        condition=loop.condition,
    )


def in_vectors(own: Scope, host: Scope, run: int, pair: int, runs: str) -> tuple[str, ...]:
    """The launcher's conditions for accesses of whole vectors: of `run` to what products meet, of
    which `runs` must be whole ones if it is told, and of `pair` to results."""
    packed = tuple(contiguous(host, buffer) for buffer in own.strided)
    vectors = aligned(host, own.loads, run) + aligned(host, own.stores, pair)
    return (*packed, *vectors, *((f"{runs} % {run} == 0",) if runs else ()))


def operand_size(
    lines: int, depth: int, major: Major, itemsize: int, bytes_of: Callable[[int, int], int]
) -> int:
    """The bytes of an operand's tile; `bytes_of` so many rows of so many bytes."""
    if major is Major.DEPTH:
        return bytes_of(lines, depth * itemsize)
    return bytes_of(depth, lines * itemsize)


def padded_bytes(rows: int, row_bytes: int) -> int:
    """The bytes of a tile that warps read (`PaddedRows`)."""
    return rows * (row_bytes + ACCESS_BYTES)


def swizzled_bytes(rows: int, row_bytes: int) -> int:
    """The bytes of a tile that warpgroups read (`SwizzledRows`)."""
    return rows * -(-row_bytes // SWIZZLE_BYTES) * SWIZZLE_BYTES
