"""The text of kernels that multiply what is made of products."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fusegen.codegen.c_text import storage_type
from fusegen.codegen.kernel_text import KernelText, kernel_arguments
from fusegen.codegen.loops import LoadAhead, VectorLoop, element_in_memory
from fusegen.codegen.matrix_text import matrix_text
from fusegen.codegen.names import mentions
from fusegen.codegen.row_tiles import (
    Form,
    NeighboursText,
    OperandText,
    RowTileText,
    by_warpgroups,
    by_warps,
    gathers_ahead,
    in_vectors,
    loads_ahead,
    loads_of_row,
    operand_size,
    padded_bytes,
    statements_of,
    stored_neighbours,
    swizzled_bytes,
)
from fusegen.codegen.scope import Scope, stored_integers
from fusegen.plan.expressions import Accumulator, Expression, Load, walk
from fusegen.plan.kernels.attention import RUN
from fusegen.plan.kernels.back_to_back import (
    BackToBackPlan,
    BackToBackTile,
    NarrowOperand,
    SecondProduct,
)
from fusegen.plan.kernels.matrix_view import Major
from fusegen.plan.tolerance import tolerant

BY_WARPS = by_warps("ByWarps")
BY_WARPGROUPS = by_warpgroups("ByWarpgroups")


@dataclass(frozen=True)
class TileText:
    """An operand, and where its tile begins among others: behind those named."""

    operand: OperandText
    begin: str


@dataclass(frozen=True)
class FirstText:
    """A first product: its left tile and its right one."""

    left: TileText
    right: TileText


@dataclass(frozen=True)
class SecondText:
    """A second product: its right tile, how many neighbouring columns a thread has, how many there
    are, and what is done with these."""

    right: TileText
    pair: int
    columns: int
    results: NeighboursText


@dataclass(frozen=True)
class FormText(RowTileText):
    """A kernel: beside what all have its tile, its operands' tiles, and what is done with first
    products, for which there are loads that are made once for each row (`of_row`), and with second
    ones."""

    tile: BackToBackTile
    middles: str
    lefts: tuple[TileText, ...]
    rights: tuple[TileText, ...]
    firsts: tuple[FirstText, ...]
    seconds: tuple[SecondText, ...]
    of_row: tuple[LoadAhead, ...]
    made: NeighboursText

    @property
    def of_row_needs_row(self) -> bool:
        """Whether the row occurs in what is loaded once for it."""
        return mentions(tuple(load.value for load in self.of_row), "row")


@dataclass(frozen=True)
class BackToBackText:
    """What the skeleton `back_to_back.cu.j2` fills in. `in_vectors` are the conditions on the
    tensors at hand for wide accesses to what is not multiplied. A thread has first products of
    `run` neighbouring middles."""

    kernel: KernelText
    type: str
    run: int
    in_vectors: tuple[str, ...]
    by_warps: FormText
    by_warpgroups: FormText


def back_to_back_text(plan: BackToBackPlan) -> BackToBackText:
    """Fill the skeleton from the plan."""
    host = _scope(plan, plan.values)
    own = _scope(plan, plan.made)
    text = _form(plan, BY_WARPS, plan.warp_tile, padded_bytes, host, host)
    needs_middles = text.early or text.made.needs_first
    middles = host.factor(plan.axes.middles) if needs_middles else ""
    pair = max(second.pair for second in plan.seconds)
    return BackToBackText(
        KernelText.of(plan, host),
        storage_type(plan.rights[0].load.buffer.dtype),
        plan.run,
        in_vectors(own, host, plan.run, pair, middles),
        text,
        _form(plan, BY_WARPGROUPS, plan.warpgroup_tile, swizzled_bytes, own, host),
    )


def _scope(plan: BackToBackPlan, values: tuple[Expression, ...]) -> Scope:
    axes = plan.axes
    variables = (axes.batch, axes.row, axes.middle, *(each.column for each in plan.operands))
    stores = tuple(store for second in plan.seconds for store in second.epilogue.stores)
    integers = (*variables, axes.batches, axes.rows, axes.middles, *stored_integers(stores))
    return Scope.of(plan.name, values, plan.written, integers)


def _form(
    plan: BackToBackPlan,
    form: Form,
    tile: BackToBackTile,
    bytes_of: Callable[[int, int], int],
    scope: Scope,
    host: Scope,
) -> FormText:
    axes = plan.axes
    lefts = _tiles(plan, form, tile, scope, host, is_left=True)
    rights = _tiles(plan, form, tile, scope, host, is_left=False)
    operands = tuple(second.operand for second in plan.seconds)
    ahead = _over_middles(plan, scope, ahead=True)
    early = loads_ahead(operands, ahead) | gathers_ahead(operands, ahead)
    of_row = loads_of_row(operands, ahead)
    return FormText(
        form,
        _shared_bytes(plan, tile, bytes_of),
        scope.parameters,
        kernel_arguments(scope, host),
        scope.text(axes.batches),
        scope.text(axes.rows),
        tuple(each.operand for each in (*lefts, *rights)),
        tuple(right.operand for right in rights),
        tuple(early.values()),
        tile,
        scope.text(axes.middles),
        lefts,
        rights,
        tuple(
            FirstText(left, rights[first.right])
            for left, first in zip(lefts, plan.firsts, strict=True)
        ),
        tuple(
            SecondText(
                rights[second.right],
                second.pair,
                plan.rights[second.right].columns,
                _results(second, plan.rights[second.right], scope),
            )
            for second in plan.seconds
        ),
        tuple(of_row.values()),
        _made(plan, scope, early, of_row),
    )


def _tiles(
    plan: BackToBackPlan,
    form: Form,
    tile: BackToBackTile,
    scope: Scope,
    host: Scope,
    *,
    is_left: bool,
) -> tuple[TileText, ...]:
    """The tiles of rows or of middles, one behind the other."""
    axes = plan.axes
    operands = tuple(first.left for first in plan.firsts) if is_left else plan.rights
    name, line = ("left", "row") if is_left else ("right", "middle")
    made: list[TileText] = []
    for number, operand in enumerate(operands):
        own = f"{name}_{number}" if len(operands) > 1 else name
        matrix = (
            matrix_text(own, operand.view, scope, host)
            if operand.view and plan.has_matrices
            else None
        )
        text = OperandText(
            _type_name(own),
            tile.rows if is_left else tile.middles,
            operand.width,
            plan.run == RUN and not is_left,
            f"{line}s",
            str(operand.columns),
            (host.text(axes.rows if is_left else axes.middles), str(operand.columns)),
            line,
            "column",
            "" if form.is_whole else element_in_memory(operand.load, scope),
            matrix,
        )
        before = "".join(f" + {each.operand.tile}::size" for each in made)
        made.append(TileText(text, before))
    return tuple(made)


def _type_name(name: str) -> str:
    return name.replace("_", "").capitalize()


def _over_middles(plan: BackToBackPlan, scope: Scope, *, ahead: bool = False) -> VectorLoop:
    axes = plan.axes
    return VectorLoop(scope, axes.middle, "first_middle", plan.run, (axes.middles,), ahead=ahead)


def _made(
    plan: BackToBackPlan,
    scope: Scope,
    early: Mapping[Load, LoadAhead],
    of_row: Mapping[Load, LoadAhead],
) -> NeighboursText:
    """What makes the second products' operands of the first products."""
    loop = _over_middles(plan, scope)
    loop.vectors = {load: f"met.{text.name}" for load, text in early.items()}
    loop.shared = {load: f"of_row.{text.name}" for load, text in of_row.items()}
    operands = tuple(second.operand for second in plan.seconds)
    held = {e: e.number for e in walk(operands) if isinstance(e, Accumulator)}
    names: dict[Expression, str] = {e: scope.names.fresh(f"product_{i}") for e, i in held.items()}
    short = plan.rights[0].load.dtype
    statements = statements_of(loop, names, tolerant((operand, short) for operand in operands))
    statements.lines += [
        f"const float {names[product]} = firsts[{number}][element];"
        for product, number in held.items()
    ]
    values = [statements.value(operand) for operand in operands]
    statements.lines += [
        f"made[{number}][element] = {value};" for number, value in enumerate(values)
    ]
    body = statements.drain()
    return NeighboursText("middle", tuple(loop.before), body, tuple(loop.after))


def _results(second: SecondProduct, right: NarrowOperand, scope: Scope) -> NeighboursText:
    extent = right.column.alone.extent
    multiples = (extent,) if extent is not None else ()
    loop = VectorLoop(scope, right.column, "first_column", second.pair, multiples)
    values = second.epilogue.values
    known: dict[Expression, str] = {
        e: "results[element]" for e in walk(values) if isinstance(e, Accumulator)
    }
    return stored_neighbours(loop, "column", second.epilogue.stores, known)


def _shared_bytes(
    plan: BackToBackPlan, tile: BackToBackTile, bytes_of: Callable[[int, int], int]
) -> int:
    """The tiles of a block's rows, and those of the middles for each stage."""

    def size(operand: NarrowOperand, lines: int) -> int:
        major = operand.view.major if operand.view and plan.has_matrices else Major.DEPTH
        return operand_size(
            lines, operand.width, major, operand.load.buffer.dtype.itemsize, bytes_of
        )

    lefts = sum(size(first.left, tile.rows) for first in plan.firsts)
    return lefts + tile.stages * sum(size(right, tile.middles) for right in plan.rights)
