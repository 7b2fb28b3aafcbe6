"""Attention in one kernel: two products, and the softmax between them."""

from __future__ import annotations

import math
from dataclasses import replace

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Node, topological
from fusegen.ir.integers import ONE, ZERO, Integer
from fusegen.ir.integers import product as product_of
from fusegen.ops.pointwise.arithmetic import DIVIDE, MUL, SUB
from fusegen.ops.pointwise.casting import AS_STORED, CAST, NARROW, WIDEN
from fusegen.ops.pointwise.functions import EXP
from fusegen.ops.pointwise.logic import WHERE
from fusegen.ops.record import Monoid, Product
from fusegen.plan.accounting import elementwise_work, expression_cost
from fusegen.plan.attention_limits import LEAST_ROWS, MOST_COLUMNS
from fusegen.plan.coordinates import unflatten
from fusegen.plan.cost import Cost
from fusegen.plan.evaluate import Domain
from fusegen.plan.expressions import Accumulator, Compute, Expression, Literal, Load, Reduced, walk
from fusegen.plan.group import Context, Group, NotApplicable
from fusegen.plan.kernels.attention import (
    FRAGMENT,
    RUN,
    STAGES,
    AttentionAxes,
    AttentionPlan,
    AttentionTile,
)
from fusegen.plan.kernels.epilogues import ElementEpilogue
from fusegen.plan.kernels.loader import loader
from fusegen.plan.kernels.matrix_view import Major, MatrixView
from fusegen.plan.kernels.stores import Store
from fusegen.plan.matrix_views import matrix_view
from fusegen.plan.strategies.product import element_stores
from fusegen.plan.tensor_cores import PAIR, TENSOR_DTYPES

# Results of no more columns leave registers for more than one block.
NARROW_COLUMNS = 64
# What a tile of keys takes where each multiprocessor has as many blocks as it can, with narrow
# results and with wide ones, in seconds: of 8 x 16 heads of 1024 x 64 and 4 x 16 of 2048 x 128 on
# an H200 (docs/notes/attention.md).
NARROW_SECONDS = 1.8e-6
WIDE_SECONDS = 2.1e-6
# What a score is multiplied by becomes part of the exponential's factor down to here, far from
# where float32 would lose any of it.
LEAST_FACTOR = 2.0**-64
# The registers of a thread for what its scores meet ahead: beside narrow results those of a mask
# and a bias of 16 bits, met 8 at a time. With 32, masks that are met one by one spill (168 bytes).
NARROW_MET_REGISTERS = 24
WIDE_MET_REGISTERS = 32
WARP_MET_REGISTERS = 64
# A weight's instructions: the exponential, its sum, the greatest, and packing.
WEIGHT_COST = 8
WHY = (
    "the softmax's weights are used where they are made, a tile of keys at a time, so that no "
    "score is stored"
)


def plan(group: Group, context: Context) -> tuple[AttentionPlan, ...]:
    """The scores stay in registers; what was summed by an earlier greatest score is scaled."""
    scored, summed = _products_of(group)
    axes = _axes_of(scored, summed)
    batch = unflatten(axes.batch, summed.shape[:-2])
    line = axes.row if axes.batches == ONE else axes.batch * axes.rows + axes.row
    domain = Domain(line, axes.key, product_of(summed.shape[:-1]), axes.keys)
    evaluator = context.evaluator(group, domain=domain)
    at_score = (*batch, axes.row, axes.key)
    evaluator = replace(evaluator, products={scored: at_score})
    whole_score, greatest, total = _softmax_of(evaluator.at(summed.operands[0], at_score))
    score, factor = _without_factor(whole_score)
    operands = (
        evaluator.at(scored.operands[0], (*batch, axes.row, axes.depth)),
        evaluator.at(scored.operands[1], (*batch, axes.depth, axes.key)),
        evaluator.at(summed.operands[1], (*batch, axes.key, axes.column)),
    )
    queries, keys, values = map(_loaded, operands)
    of_sums = [r for r in group.results if summed in topological((r,))]
    of_rows = [result for result in group.results if result not in of_sums]
    if any(result.type.count != product_of(summed.shape[:-1]) for result in of_rows):
        raise NotApplicable("a result is neither for each element of the sums nor for each row")
    statistics = tuple(
        Store(context.buffers[node], line, evaluator.at(node, unflatten(line, node.shape)))
        for node in of_rows
    )
    _check_statistics(statistics, (greatest, total))
    position = line * axes.columns + axes.column
    own = Group(group.nodes, tuple(of_sums))
    stores = element_stores(own, context, summed, position, axes.column)
    epilogue = ElementEpilogue(stores)
    views = (
        matrix_view(queries, axes.batch, axes.row, axes.depth),
        matrix_view(keys, axes.batch, axes.key, axes.depth),
        matrix_view(values, axes.batch, axes.column, axes.key),
    )
    query_view, key_view, value_view = views
    return (
        AttentionPlan(
            "",
            group.nodes,
            WHY,
            _cost(axes, (queries, keys, values), score, epilogue, context),
            axes,
            _warp_tile(axes),
            _warpgroup_tile(axes),
            _run(views),
            PAIR if axes.columns % PAIR == ZERO else 1,
            queries,
            keys,
            values,
            (query_view, key_view, value_view) if query_view and key_view and value_view else None,
            score,
            factor,
            greatest,
            total,
            epilogue,
            statistics,
        ),
    )


def _check_statistics(statistics: tuple[Store, ...], known: tuple[Reduced, Reduced]) -> None:
    """Whether what is stored for each row is made of what the kernel knows of it."""
    stack: list[Expression] = [store.value for store in statistics]
    while stack:
        value = stack.pop()
        if isinstance(value, (Accumulator, Load, Reduced)) and value not in known:
            raise NotApplicable("a result is made of something else than the softmax's statistics")
        if value not in known:
            stack += value.arguments


def _products_of(group: Group) -> tuple[Node, Node]:
    """The product that makes scores, and the one that sums values."""
    products = group.having(Product)
    if len(products) != 2:
        raise NotApplicable("the group has not exactly two matrix products")
    scored, summed = products  # in topological order
    if scored.dtype not in TENSOR_DTYPES or summed.dtype is not scored.dtype:
        raise NotApplicable("only products of 16 bits share a kernel")
    if scored.shape != summed.operands[0].shape:
        raise NotApplicable("the weights have another shape than the scores")
    return scored, summed


def _axes_of(scored: Node, summed: Node) -> AttentionAxes:
    batches = product_of(summed.shape[:-2])
    rows, columns = summed.shape[-2:]
    keys, depths = scored.shape[-1], scored.operands[0].shape[-1]
    for size, what in ((columns, "the values"), (depths, "queries and keys")):
        if size.constant is None:
            raise NotApplicable(f"how wide {what} are is not known before the call")
        if not 0 < size.constant <= MOST_COLUMNS:
            raise NotApplicable(f"{what} are wider than {MOST_COLUMNS}")
    if ZERO in (batches, rows, keys):
        raise NotApplicable("there are no scores")
    if rows.constant is not None and rows.constant < LEAST_ROWS:
        raise NotApplicable(f"{rows.constant} rows of queries are few for a tile")
    return AttentionAxes(
        Integer.symbol("batch_index", batches),
        Integer.symbol("row", rows),
        Integer.symbol("key", keys),
        Integer.symbol("depth", depths),
        Integer.symbol("column", columns),
        batches,
        rows,
        keys,
        depths,
        columns,
    )


def _softmax_of(weight: Expression) -> tuple[Expression, Reduced, Reduced]:
    """What a weight is the softmax of, over the keys of its row, and the greatest and the total
    that it is made with."""
    wanted = weight.dtype
    while isinstance(weight, Compute) and weight.operation in (CAST, NARROW, WIDEN, AS_STORED):
        (before,) = weight.operands
        if weight.dtype not in (wanted, wanted.compute) or not before.dtype.is_float:
            raise NotApplicable("the weights are converted to another type on their way")
        weight = before
    power, total = _operands(weight, DIVIDE)
    (shifted,) = _operands(power, EXP)
    score, greatest = _operands(shifted, SUB)
    if any(isinstance(each, Reduced) for each in walk((score,))):
        raise NotApplicable("a score needs others of its row")
    return (
        score,
        _reduced(greatest, Monoid.MAXIMUM, score),
        _reduced(total, Monoid.SUM, power),
    )


def _operands(value: Expression, operation: object) -> tuple[Expression, ...]:
    if not isinstance(value, Compute) or value.operation is not operation:
        raise NotApplicable("the weights are no softmax")
    return value.operands


def _reduced(value: Expression, monoid: Monoid, operand: Expression) -> Reduced:
    if isinstance(value, Reduced) and value.monoid is monoid and value.arguments == (operand,):
        return value
    raise NotApplicable("the weights are no softmax")


def _without_factor(score: Expression) -> tuple[Expression, float]:
    """A score without a constant that it is multiplied by last, and this, which costs nothing where
    the score becomes a power: above 0, so that the greatest stays the greatest, and no more than 1,
    so that only infinities make one. What is -inf stays so."""
    if not isinstance(score, Compute) or score.dtype.compute is not DType.FLOAT32:
        return score, 1.0
    if score.operation in (CAST, WIDEN) and score.dtype is DType.FLOAT32:
        (value,) = score.operands
        widens = value.dtype.compute is DType.FLOAT32  # and rounds nothing
        return _without_factor(value) if widens else (score, 1.0)
    if score.operation is MUL:
        for value, other in (score.operands, score.operands[::-1]):
            if isinstance(other, Literal) and LEAST_FACTOR <= other.value <= 1:
                return value, float(other.value)
    if score.operation is DIVIDE:
        value, other = score.operands
        if isinstance(other, Literal) and 1 <= other.value <= 1 / LEAST_FACTOR:
            return value, 1 / other.value
    if score.operation is WHERE:
        condition, *sides = score.operands
        bare = [_without_factor(side) for side in sides]
        for i, other in enumerate(reversed(sides)):
            if isinstance(other, Literal) and other.value == -math.inf:
                sides[i], factor = bare[i]
                return replace(score, operands=(condition, *sides)), factor
    return score, 1.0


def _loaded(value: Expression) -> Load:
    if not isinstance(value, Load) or value.buffer.dtype is not value.dtype:
        raise NotApplicable("an operand is made of more than one element in memory")
    return value


def _warp_tile(axes: AttentionAxes) -> AttentionTile:
    """Two fragments of rows for each warp, so that what it reads of keys and values serves both."""
    columns = _whole(axes.columns)
    return AttentionTile(
        2 * FRAGMENT,
        warps=4,
        blocks=1,
        keys=64 if columns <= NARROW_COLUMNS else 32,
        depth=_whole(axes.depths),
        columns=columns,
        met_registers=WARP_MET_REGISTERS,
        stages=STAGES,
    )


def _warpgroup_tile(axes: AttentionAxes) -> AttentionTile:
    """Two warpgroups, which share keys and values; as many keys as leave registers for two blocks
    of them where results are narrow. Where they are wide there is one block, whose products overlap
    (docs/notes/attention.md)."""
    is_narrow = _whole(axes.columns) <= NARROW_COLUMNS
    warps, blocks = 8, 2 if is_narrow else 1
    return AttentionTile(
        FRAGMENT,
        warps,
        blocks,
        keys=64 if is_narrow else 128,
        depth=_whole(axes.depths),
        columns=_whole(axes.columns),
        met_registers=NARROW_MET_REGISTERS if is_narrow else WIDE_MET_REGISTERS,
        stages=2 if is_narrow else 3,
        loader=loader(warps, blocks),
        overlaps=not is_narrow,
    )


def _run(views: tuple[MatrixView | None, ...]) -> int:
    """How many neighbouring keys a thread can have the scores of: more than the pairs that the
    products leave it where the rows of tiles are keys, whose order is then free."""
    _, keys, values = views
    if keys and values and keys.major is Major.DEPTH and values.major is Major.LINE:
        return RUN
    return PAIR


def _whole(size: Integer) -> int:
    assert size.constant is not None, "checked with the axes"
    return -(-size.constant // FRAGMENT) * FRAGMENT


def _cost(
    axes: AttentionAxes,
    operands: tuple[Load, ...],
    score: Expression,
    epilogue: ElementEpilogue,
    context: Context,
) -> Cost:
    hints = context.hints
    scores = hints.value(axes.batches * axes.rows * axes.keys)
    results = hints.value(axes.batches * axes.rows * axes.columns)
    flops = 2 * scores * hints.value(axes.depths + axes.columns)
    met = [e for e in walk((score,)) if isinstance(e, Load)]
    buffers = dict.fromkeys(load.buffer for load in (*operands, *met))
    work = elementwise_work(epilogue.stores, results, hints)
    made = scores * (WEIGHT_COST + expression_cost(walk((score,))))
    return Cost(
        work.reads + sum(hints.value(buffer.bytes) for buffer in buffers),
        work.writes,
        work.flops + made,
        tensor_flops=flops,
        least_seconds=_least_seconds(axes, context),
    )


def _least_seconds(axes: AttentionAxes, context: Context) -> float:
    """The waves of blocks, each of which goes through all keys."""
    hints, tile = context.hints, _warpgroup_tile(axes)
    blocks = hints.value(axes.batches) * -(-hints.value(axes.rows) // tile.rows)
    waves = -(-blocks // (context.device.processors * tile.blocks))
    seconds = NARROW_SECONDS if tile.columns <= NARROW_COLUMNS else WIDE_SECONDS
    return waves * -(-hints.value(axes.keys) // tile.keys) * seconds
