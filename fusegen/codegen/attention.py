"""The text of attention's kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fusegen.codegen.c_text import number, storage_type
from fusegen.codegen.kernel_text import KernelText, kernel_arguments
from fusegen.codegen.loops import LoadAhead, VectorLoop, element_in_memory
from fusegen.codegen.matrix_text import matrix_text
from fusegen.codegen.row_tiles import (
    Form,
    NeighboursText,
    OperandText,
    RowTileText,
    by_warpgroups,
    by_warps,
    in_vectors,
    loads_ahead,
    operand_size,
    padded_bytes,
    statements_of,
    stored_neighbours,
    swizzled_bytes,
)
from fusegen.codegen.scope import Scope, stored_integers
from fusegen.ir.dtypes import DType
from fusegen.plan.expressions import Accumulator, Expression, Load, walk
from fusegen.plan.kernels.attention import FRAGMENT, RUN, AttentionPlan, AttentionTile
from fusegen.plan.kernels.matrix_view import Major

BY_WARPS = by_warps("mma_attention")
BY_WARPGROUPS = by_warpgroups("wgmma_attention")


@dataclass(frozen=True)
class FormText(RowTileText):
    """A kernel of attention: beside what all have its tile, with the `parts` of 16 rows that a warp
    has, and what is done with scores, with results, and with a row's statistics."""

    tile: AttentionTile
    parts: int
    keys: str
    depths: str
    columns: str
    score: NeighboursText
    results: NeighboursText
    statistics: tuple[str, ...]


@dataclass(frozen=True)
class AttentionText:
    """What the skeleton `attention.cu.j2` fills in. `in_vectors` are the conditions on the tensors
    at hand for wide accesses to what is not multiplied. A thread has scores of `run` neighbouring
    keys, which count `factor` times, and results of `pair` neighbouring columns."""

    kernel: KernelText
    type: str
    run: int
    pair: int
    factor: str
    in_vectors: tuple[str, ...]
    by_warps: FormText
    by_warpgroups: FormText


def attention_text(plan: AttentionPlan) -> AttentionText:
    """Fill the skeleton from the plan."""
    host = _scope(plan, plan.values)
    own = _scope(plan, (plan.score, *plan.results))
    text = _form(plan, BY_WARPS, plan.warp_tile, padded_bytes, host, host)
    needs_keys = text.early or text.score.needs_first
    return AttentionText(
        KernelText.of(plan, host),
        storage_type(plan.queries.buffer.dtype),
        plan.run,
        plan.pair,
        number(plan.factor, DType.FLOAT32),
        in_vectors(
            own, host, plan.run, plan.pair, host.factor(plan.axes.keys) if needs_keys else ""
        ),
        text,
        _form(plan, BY_WARPGROUPS, plan.warpgroup_tile, swizzled_bytes, own, host),
    )


def _scope(plan: AttentionPlan, values: tuple[Expression, ...]) -> Scope:
    axes = plan.axes
    variables = (axes.batch, axes.row, axes.key, axes.depth, axes.column)
    sizes = (axes.batches, axes.rows, axes.keys, axes.depths, axes.columns)
    integers = (*variables, *sizes, *stored_integers((*plan.epilogue.stores, *plan.statistics)))
    return Scope.of(plan.name, values, plan.written, integers)


def _form(
    plan: AttentionPlan,
    form: Form,
    tile: AttentionTile,
    bytes_of: Callable[[int, int], int],
    scope: Scope,
    host: Scope,
) -> FormText:
    axes = plan.axes
    early = loads_ahead((plan.score,), _over_keys(plan, scope, ahead=True))
    operands = _operands(plan, form, tile, scope, host)
    return FormText(
        form,
        _shared_bytes(plan, tile, bytes_of),
        scope.parameters,
        kernel_arguments(scope, host),
        scope.text(axes.batches),
        scope.text(axes.rows),
        operands,
        operands[1:],
        tuple(early.values()),
        tile,
        tile.warp_rows // FRAGMENT,
        scope.text(axes.keys),
        scope.text(axes.depths),
        scope.text(axes.columns),
        _score(plan, scope, early),
        _results(plan, scope),
        _statistics(plan, scope),
    )


def _operands(
    plan: AttentionPlan, form: Form, tile: AttentionTile, scope: Scope, host: Scope
) -> tuple[OperandText, ...]:
    axes = plan.axes
    sizes = {"row": axes.rows, "key": axes.keys, "depth": axes.depths, "column": axes.columns}
    sides = {"row": tile.rows, "key": tile.keys, "depth": tile.depth, "column": tile.columns}
    operands = (
        ("Queries", "query", "row", "depth"),
        ("Keys", "key", "key", "depth"),
        ("Values", "value", "column", "key"),
    )
    made = []
    for i, (type_name, name, line, depth) in enumerate(operands):
        view = plan.views[i] if plan.views else None
        made.append(
            OperandText(
                type_name,
                sides[line],
                sides[depth],
                plan.run == RUN and line != "row",
                f"{line}s",
                f"{depth}s",
                (host.text(sizes[line]), host.text(sizes[depth])),
                line,
                depth,
                "" if form.is_whole else element_in_memory(plan.operands[i], scope),
                matrix_text(name, view, scope, host) if view else None,
            )
        )
    return tuple(made)


def _over_keys(plan: AttentionPlan, scope: Scope, *, ahead: bool = False) -> VectorLoop:
    return VectorLoop(scope, plan.axes.key, "first_key", plan.run, (plan.axes.keys,), ahead=ahead)


def _score(plan: AttentionPlan, scope: Scope, early: Mapping[Load, LoadAhead]) -> NeighboursText:
    loop = _over_keys(plan, scope)
    loop.vectors = {load: f"met.{text.name}" for load, text in early.items()}
    product = "scores[element]"
    statements = statements_of(loop, _held((plan.score,), product))
    value = statements.value(plan.score)
    if value != product:
        statements.lines.append(f"{product} = {value};")
    body = statements.drain()
    return NeighboursText("key", tuple(loop.before), body, tuple(loop.after))


def _results(plan: AttentionPlan, scope: Scope) -> NeighboursText:
    axes = plan.axes
    loop = VectorLoop(scope, axes.column, "first_column", plan.pair, (axes.columns,))
    known = _held(plan.epilogue.values, "results[element]")
    return stored_neighbours(loop, "column", plan.epilogue.stores, known)


def _held(roots: tuple[Expression, ...], product: str) -> dict[Expression, str]:
    return {e: product for e in walk(roots) if isinstance(e, Accumulator)}


def _statistics(plan: AttentionPlan, scope: Scope) -> tuple[str, ...]:
    """What stores the statistics of a row."""
    loop = VectorLoop(scope, plan.axes.column, "first_column", 1)
    statements = statements_of(loop, {plan.greatest: "greatest", plan.total: "weight_total"})
    for store in plan.statistics:
        statements.lines.append(loop.store(store, statements.value(store.value)))
    return statements.drain()


def _shared_bytes(
    plan: AttentionPlan, tile: AttentionTile, bytes_of: Callable[[int, int], int]
) -> int:
    """The tiles of the queries, and of keys and values for each stage."""
    majors = [view.major for view in plan.views] if plan.views else [Major.DEPTH] * 3
    sizes = ((tile.rows, tile.depth), (tile.keys, tile.depth), (tile.columns, tile.keys))
    itemsize = plan.queries.buffer.dtype.itemsize
    queries, keys, values = (
        operand_size(lines, depth, major, itemsize, bytes_of)
        for major, (lines, depth) in zip(majors, sizes, strict=True)
    )
    return queries + tile.stages * (keys + values)
