"""Whether and how blocks share the K of a product: where tiles are few, and K is long."""

from __future__ import annotations

from dataclasses import replace

from fusegen.ir.graph import Node
from fusegen.ir.integers import Integer
from fusegen.plan.buffers import workspace
from fusegen.plan.expressions import Accumulator
from fusegen.plan.group import Context
from fusegen.plan.kernels.epilogues import ElementEpilogue, Epilogue
from fusegen.plan.kernels.product import ProductAxes, Tile
from fusegen.plan.kernels.product_forms import SharedDepth, TileKind, WgmmaForm
from fusegen.plan.kernels.stores import Store
from fusegen.plan.tensor_cores import PAIR, in_pairs, on_kind, possible_kinds
from fusegen.plan.tile_waves import LEAST_STEPS, SHARING_BLOCKS

# On the shared-memory tile, about two blocks for each multiprocessor of an H100. The number is the
# same on every card, and so are a sum's bits.
BLOCKS = 256
# On the tensor cores: wider tiles leave twice as many sums, which takes longer than what they save
# in loads but for the largest results (docs/notes/product-shapes.md).
MOST_COLUMNS = 128
SHARED_WHY = "blocks share K where tiles are few, and a kernel adds their sums in order"


def shared_tiles(
    cores: WgmmaForm, node: Node, axes: ProductAxes, epilogue: Epilogue, context: Context
) -> WgmmaForm | None:
    """The form of a product on the tensor cores whose K is shared through memory; None where it is
    not worth it, or rows are not known. A sum is left as a pair with its neighbour."""
    are_odd = axes.columns.constant is not None and axes.columns.constant % PAIR
    if axes.rows.constant is None or are_odd or cores.is_beside or cores.skips_margins:
        return None
    columns = min(MOST_COLUMNS, possible_kinds(cores, axes, None)[0].columns)
    form = in_pairs(on_kind(cores, TileKind(columns)))
    return with_shared_depth(form, node, axes, epilogue, context)


def with_shared_depth(
    form: WgmmaForm, node: Node, axes: ProductAxes, epilogue: Epilogue, context: Context
) -> WgmmaForm | None:
    """The same form with a K that is shared through memory, or None where that is not worth it."""
    tile = Tile(form.rows, form.columns, form.depth, form.columns)
    shared = shared_depth(node, axes, tile, SHARING_BLOCKS, epilogue, context)
    return replace(form, shared=shared) if shared else None


def shared_depth(
    node: Node, axes: ProductAxes, tile: Tile, blocks: int, epilogue: Epilogue, context: Context
) -> SharedDepth | None:
    """How a product on such tiles shares K among no more than so many blocks, or None where no
    sizes make it worth it. An epilogue over more than an element needs all of a tile's."""
    if not isinstance(epilogue, ElementEpilogue):
        return None
    sizes = (axes.batches, axes.rows, axes.columns)
    batches, rows, columns = (1 if size.constant is None else size.constant for size in sizes)
    tiles = batches * -(-rows // tile.rows) * -(-columns // tile.columns)
    depths = axes.depths.constant
    most_parts = blocks if depths is None else depths // (tile.depth * LEAST_STEPS)
    if most_parts < 2 or 2 * tiles > blocks:
        return None
    are_known = all(size.constant is not None for size in sizes)
    blocks = min(blocks, tiles * most_parts) if are_known else blocks
    taken = {buffer.name for buffer in context.buffers.values()}
    shape = tuple(map(Integer.of, (blocks, tile.rows, tile.columns)))
    compute = node.dtype.compute
    sums = workspace(f"{context.buffers[node].name}_sums", shape, compute, taken)
    part = Integer.symbol("part", blocks) * axes.batches + axes.batch
    position = (part * axes.rows + axes.row) * axes.columns + axes.column
    leaving = Store(sums, position, Accumulator(compute, "accumulator"))
    return SharedDepth(blocks, LEAST_STEPS, leaving)
