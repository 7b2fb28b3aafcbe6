"""The text of an elementwise kernel."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.codegen.c_text import loaded, storage_type
from fusegen.codegen.kernel_text import KernelText, kernel_arguments
from fusegen.codegen.loops import VectorLoop
from fusegen.codegen.names import mentions
from fusegen.codegen.scope import Scope, stored_integers
from fusegen.codegen.statements import Statements
from fusegen.plan.expressions import Expression
from fusegen.plan.kernels.elementwise import (
    LEAST_LINE,
    THREADS,
    TURNED_PITCH,
    TURNED_TILE,
    ElementwisePlan,
    TurnedTiles,
)
from fusegen.plan.kernels.stores import Store


@dataclass(frozen=True)
class TurnedText:
    """A tile of an operand that lies across: its array in shared memory, its type, its pointer, and
    where the element at the tile's `row` and `column` stands there."""

    name: str
    type: str
    source: str
    position: str


@dataclass(frozen=True)
class TilesText:
    """What `turned_tiles.j2` fills in: the kernel for operands that lie across.

    `arguments` are what the launcher passes on. `sizes` are the numbers of images, rows and columns
    in the kernel, `host_sizes` in the launcher. Accesses along the results are as wide as the
    first of `widths` that divides the columns.
    """

    parameters: tuple[str, ...]
    arguments: tuple[str, ...]
    sizes: tuple[str, str, str]
    host_sizes: tuple[str, str, str]
    widths: tuple[int, ...]
    turned: tuple[TurnedText, ...]
    before: tuple[str, ...]
    body: tuple[str, ...]
    after: tuple[str, ...]
    needs_column: bool
    size: int = TURNED_TILE
    pitch: int = TURNED_PITCH
    least_line: int = LEAST_LINE


@dataclass(frozen=True)
class ElementwiseText:
    """What the skeleton `elementwise.cu.j2` fills in."""

    kernel: KernelText
    threads: int
    vector: int
    count: str
    before: tuple[str, ...]
    body: tuple[str, ...]
    after: tuple[str, ...]
    needs_index: bool
    multiplies: bool
    tiles: TilesText | None


def elementwise_text(plan: ElementwisePlan) -> ElementwiseText:
    """Fill the skeleton from the plan."""
    tiles = plan.tiles
    sizes = (tiles.images, tiles.rows, tiles.columns) if tiles else ()
    scope = Scope.of(
        plan.name, plan.values, plan.written, stored_integers(plan.stores), (plan.count, *sizes)
    )
    loop = VectorLoop(scope, plan.index, "first", plan.vector)
    body = _stored(plan.stores, plan, loop, {})
    return ElementwiseText(
        KernelText.of(plan, scope),
        THREADS,
        plan.vector,
        scope.text(plan.count),
        tuple(loop.before),
        body,
        tuple(loop.after),
        mentions(body, "index"),
        bool(plan.multiplied),
        _tiles_text(plan, tiles, scope) if tiles else None,
    )


def _stored(
    stores: tuple[Store, ...],
    plan: ElementwisePlan,
    loop: VectorLoop,
    known: dict[Expression, str],
) -> tuple[str, ...]:
    """The statements of the element loop, with the text of what is `known` already."""
    statements = Statements(
        loop.scope.names,
        loop.scope.symbols,
        loop.load,
        loop.guarded_load,
        known,
        multiplied=plan.multiplied,
        choice=loop.choice,
        condition=loop.condition,
    )
    for store in stores:
        statements.lines.append(loop.store(store, statements.value(store.value)))
    return statements.drain()


def _tiles_text(plan: ElementwisePlan, tiles: TurnedTiles, host: Scope) -> TilesText:
    sizes = (tiles.images, tiles.rows, tiles.columns)
    scope = Scope.of(
        plan.name,
        tiles.values,
        plan.written,
        (*stored_integers(tiles.stores), tiles.image, tiles.row, tiles.column, *sizes),
        is_packed=True,
    )
    loop = VectorLoop(scope, tiles.column, "first_column", plan.vector, (tiles.columns,))
    known: dict[Expression, str] = {}
    turned = []
    for load in tiles.turned:
        name = scope.names.fresh(f"{scope.buffer(load.buffer)}_tile")
        at = f"{name}[own_row * {TURNED_PITCH} + own_column + element]"
        known[load] = loaded(at, load.dtype)
        dtype = storage_type(load.buffer.dtype)
        turned.append(TurnedText(name, dtype, scope.buffer(load.buffer), scope.text(load.offset)))
    body = _stored(tiles.stores, plan, loop, known)
    return TilesText(
        scope.parameters,
        kernel_arguments(scope, host),
        (scope.factor(tiles.images), scope.text(tiles.rows), scope.text(tiles.columns)),
        (host.factor(tiles.images), host.text(tiles.rows), host.text(tiles.columns)),
        tuple(dict.fromkeys((plan.vector, max(1, plan.vector // 2), 1))),
        tuple(turned),
        tuple(loop.before),
        body,
        tuple(loop.after),
        mentions(body, "column"),
    )
