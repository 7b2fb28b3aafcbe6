"""Whether blocks share the K of a shared-memory tile: where tiles are few, and K is long."""

from __future__ import annotations

from fusegen.ir.graph import Node
from fusegen.ir.integers import Integer
from fusegen.plan.buffers import workspace
from fusegen.plan.group import Context
from fusegen.plan.kernels.epilogues import ElementEpilogue, Epilogue
from fusegen.plan.kernels.product import ProductAxes, Tile
from fusegen.plan.kernels.product_forms import SharedDepth

# About two blocks for each multiprocessor of an H100. The number is the same on every card, and so
# are a sum's bits.
BLOCKS = 256
# A part of fewer steps is done before its sums are stored and read.
LEAST_STEPS = 8
SHARED_WHY = "blocks share K where tiles are few, and a kernel adds their sums in order"


def shared_depth(
    node: Node, axes: ProductAxes, tile: Tile, epilogue: Epilogue, context: Context
) -> SharedDepth | None:
    """How the shared-memory tile's K is shared out, or None where no sizes make it worth it. An
    epilogue over more than an element needs all of a tile's."""
    if not isinstance(epilogue, ElementEpilogue):
        return None
    sizes = (axes.batches, axes.rows, axes.columns)
    batches, rows, columns = (1 if size.constant is None else size.constant for size in sizes)
    tiles = batches * -(-rows // tile.rows) * -(-columns // tile.columns)
    depths = axes.depths.constant
    most_parts = BLOCKS if depths is None else -(-depths // tile.depth) // LEAST_STEPS
    if most_parts < 2 or 2 * tiles > BLOCKS:
        return None
    are_known = all(size.constant is not None for size in sizes)
    blocks = min(BLOCKS, tiles * most_parts) if are_known else BLOCKS
    taken = {buffer.name for buffer in context.buffers.values()}
    shape = tuple(map(Integer.of, (blocks, tile.rows, tile.columns)))
    stem = context.buffers[node].name
    sums = workspace(f"{stem}_sums", shape, node.dtype.compute, taken)
    return SharedDepth(blocks, LEAST_STEPS, sums)
