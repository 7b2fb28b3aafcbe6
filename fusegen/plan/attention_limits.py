"""What attention's kernels are for, forward and backward: for those who have to know before there
are groups."""

from __future__ import annotations

from fusegen.ir.graph import Node
from fusegen.plan.tensor_cores import TENSOR_DTYPES

# What a warp can hold of a result's row in registers, beside its scores.
MOST_COLUMNS = 128
# With fewer rows most of a tile would be idle, while all keys of a batch are one block's work.
LEAST_ROWS = 17


def stores_no_scores(scored: Node, summed: Node) -> bool:
    """Whether a product of scores, their softmax and a product that sums values are one kernel,
    and nothing as large as the scores need be stored for their gradients either."""
    rows, columns = summed.shape[-2:]
    keys, depths = scored.shape[-1], scored.operands[0].shape[-1]
    are_16_bits = scored.dtype in TENSOR_DTYPES and summed.dtype is scored.dtype
    widths = (depths.constant, columns.constant)
    are_narrow = all(width is not None and 0 < width <= MOST_COLUMNS for width in widths)
    are_many = all(s.constant is None or s.constant >= LEAST_ROWS for s in (rows, keys))
    return are_16_bits and are_narrow and are_many and scored.shape == summed.operands[0].shape
