"""Elementwise kernels some of whose operands lie across, such as images with channels last."""

from __future__ import annotations

import itertools
from math import prod

from fusegen.ir.graph import Node
from fusegen.ir.integers import Integer, product
from fusegen.plan.access import Access, access
from fusegen.plan.coordinates import unflatten
from fusegen.plan.evaluate import Evaluator
from fusegen.plan.expressions import Load, Select, walk
from fusegen.plan.group import Context
from fusegen.plan.kernels.base import STATIC_SHARED
from fusegen.plan.kernels.elementwise import LEAST_LINE, TURNED_PITCH, TURNED_TILE, TurnedTiles
from fusegen.plan.kernels.stores import Store
from fusegen.plan.phases import loads_of


def turned_tiles(
    results: tuple[Node, ...], evaluator: Evaluator, context: Context, vector: int
) -> TurnedTiles | None:
    """The tiles for results of one shape, where some operand lies across and `vector` of its
    elements come with one access."""
    shape = results[0].shape
    if len(shape) < 2 or any(result.shape != shape for result in results):
        return None
    ways = []
    for first, middle in itertools.combinations(range(len(shape)), 2):
        sizes = product(shape[:first]), product(shape[first:middle]), product(shape[middle:])
        _, *lines = (context.hints.value(size) for size in sizes)
        if min(lines) >= LEAST_LINE:
            filled = prod(line / (-(-line // TURNED_TILE) * TURNED_TILE) for line in lines)
            # Of those as full, more images, whose places are told easily; where sizes are guesses,
            # long lines, as short ones would not be turned.
            are_known = all(size.constant is not None for size in sizes[1:])
            ways.append((filled, first if are_known else -first, sizes))
    for _, _, sizes in sorted(ways, key=lambda way: way[:2], reverse=True):
        tiles = _tiles(results, evaluator, context, sizes, vector)
        if tiles is not None:
            return tiles
    return None


def _tiles(
    results: tuple[Node, ...],
    evaluator: Evaluator,
    context: Context,
    sizes: tuple[Integer, Integer, Integer],
    vector: int,
) -> TurnedTiles | None:
    images, rows, columns = sizes
    names = ("image", "row", "column")
    image, row, column = (Integer.symbol(n, s) for n, s in zip(names, sizes, strict=True))
    position = (image * rows + row) * columns + column
    stores = tuple(
        Store(context.buffers[r], position, evaluator.at(r, unflatten(position, r.shape)))
        for r in results
    )
    values = tuple(store.value for store in stores)
    if any(isinstance(expression, Select) for expression in walk(values)):
        return None  # what only one side may read cannot be brought for both
    turned: list[Load] = []
    for load in loads_of(values):
        if access(load.offset, column, 1) is Access.SCATTERED:
            if access(load.offset, row, vector, (rows,)) is not Access.CONTIGUOUS:
                return None
            turned.append(load)
    shared = sum(load.buffer.dtype.itemsize for load in turned) * TURNED_TILE * TURNED_PITCH
    if not turned or shared > STATIC_SHARED:
        return None
    return TurnedTiles(image, row, column, images, rows, columns, stores, tuple(turned))
