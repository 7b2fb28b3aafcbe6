"""The tiles of kernels that multiply what is made of products, and the time that they take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fusegen.plan.accounting import elementwise_work, expression_cost
from fusegen.plan.cost import Cost
from fusegen.plan.expressions import Load, walk
from fusegen.plan.group import Context
from fusegen.plan.kernels.attention import RUN, STAGES
from fusegen.plan.kernels.back_to_back import BackToBackPlan, BackToBackTile, NarrowOperand
from fusegen.plan.kernels.loader import loader
from fusegen.plan.kernels.matrix_view import Major
from fusegen.plan.kernels.product import ACCESS_BYTES
from fusegen.plan.tensor_cores import PAIR

# Of what is multiplied, in bytes, and what rows of it are padded by in shared memory, in elements.
ITEMSIZE = 2
PADDING = ACCESS_BYTES // ITEMSIZE
# What attention's gradients meet: a mask across its lines, and three numbers of a query.
MET_REGISTERS = 112
WARP_TILES = tuple(BackToBackTile(warps, 1, 32, MET_REGISTERS, STAGES) for warps in (8, 4, 2))
# What a block has of shared memory on cards that have least of those with `mma` (8.6 and 8.9).
LEAST_SHARED = 99 * 1024
# Blocks of one multiplying warpgroup, two of which share a multiprocessor: one block with two is
# slower. Half as many middles at a time where products would not leave registers enough for the
# rest (docs/notes/attention.md).
WARPGROUP_TILES = tuple(
    BackToBackTile(4, 2, middles, MET_REGISTERS, stages=2, loader=loader(4, 2))
    for middles in (64, 32)
)
MOST_PRODUCT_REGISTERS = 160
# What 64 columns of one product take for a block's rows and 64 middles, where each multiprocessor
# has as many blocks as it can, in seconds: of attention's gradients, with 8 x 16 heads of 1024 x 64
# and 4 x 16 of 2048 x 128 on an H200 (docs/notes/attention.md).
PRODUCT_SECONDS = 0.35e-6


def warpgroup_tile(firsts: int, seconds: Sequence[NarrowOperand]) -> BackToBackTile:
    """The first whose products leave registers, or the last of all: so many first ones, and one for
    each of the right operands of the `seconds`."""

    def fits(tile: BackToBackTile) -> bool:
        # A thread has of a warpgroup's 64 rows half a column's, and packs pairs of what it makes.
        sums = sum(right.width for right in seconds) // 2
        held = firsts * tile.middles // 2 + len(seconds) * tile.middles // 4
        return sums + held <= MOST_PRODUCT_REGISTERS

    return next(filter(fits, WARPGROUP_TILES), WARPGROUP_TILES[-1])


def warp_tile(lefts: Iterable[NarrowOperand], rights: Iterable[NarrowOperand]) -> BackToBackTile:
    """The largest that fits into the shared memory of all cards, whichever way operands lie."""
    of_rows, of_middles = tuple(lefts), tuple(rights)

    def fits(tile: BackToBackTile) -> bool:
        left = sum(_elements(each.width, tile.rows) for each in of_rows)
        right = sum(_elements(each.width, tile.middles) for each in of_middles)
        return ITEMSIZE * (left + STAGES * right) <= LEAST_SHARED

    return next(filter(fits, WARP_TILES), WARP_TILES[-1])


def _elements(width: int, lines: int) -> int:
    """What a tile takes, padding in: its rows are lines, or they lie across these."""
    return max(lines * (width + PADDING), width * (lines + PADDING))


def run_of(rights: Iterable[NarrowOperand]) -> int:
    """How many neighbouring middles a thread can have the first products of: more than the pairs
    that the tensor cores leave it where the rows of all tiles are middles, whose order is free."""
    are_rows = all(right.view and right.view.major is Major.DEPTH for right in rights)
    return RUN if are_rows else PAIR


def cost_of(plan: BackToBackPlan, context: Context) -> Cost:
    """What a plan without a cost moves and computes; the first products are made once."""
    hints, axes = context.hints, plan.axes
    scores = hints.value(axes.batches * axes.rows * axes.middles)
    results = hints.value(axes.batches * axes.rows)
    depths = sum(first.left.columns for first in plan.firsts)
    columns = sum(plan.rights[second.right].columns for second in plan.seconds)
    stores = tuple(store for second in plan.seconds for store in second.epilogue.stores)
    made = tuple(walk(tuple(second.operand for second in plan.seconds)))
    loads = (
        *(operand.load for operand in plan.operands),
        *(e for e in made if isinstance(e, Load)),
    )
    work = elementwise_work(stores, results * columns // len(plan.seconds), hints)
    return Cost(
        work.reads + sum(hints.value(b.bytes) for b in dict.fromkeys(x.buffer for x in loads)),
        work.writes,
        work.flops + scores * expression_cost(made),
        tensor_flops=2 * scores * (depths + columns),
        least_seconds=_least_seconds(plan, depths + columns, context),
    )


def _least_seconds(plan: BackToBackPlan, widths: int, context: Context) -> float:
    """The waves of blocks, each of which goes through all middles."""
    hints, axes, tile = context.hints, plan.axes, plan.warpgroup_tile
    blocks = hints.value(axes.batches) * -(-hints.value(axes.rows) // tile.rows)
    waves = -(-blocks // (context.device.processors * tile.blocks))
    steps = -(-hints.value(axes.middles) // tile.middles)
    return waves * steps * PRODUCT_SECONDS * (widths / 64) * (tile.middles / 64)
