"""Whether and how a matrix product of few rows runs at the speed of reading its right operand."""

from __future__ import annotations

from fusegen.ir.dtypes import DType
from fusegen.plan.expressions import Load
from fusegen.plan.kernels.matrix_view import Major
from fusegen.plan.kernels.product import ProductAxes
from fusegen.plan.kernels.product_forms import SkinnyForm
from fusegen.plan.matrix_views import operand_views

# An element of the right operand meets each row in a multiplication outside the tensor cores, which
# keeps up with memory to about this many rows: 16 of float32. The 16-bit types come twice as fast,
# and must be converted.
MOST_ROWS = {DType.FLOAT32: (2, 8, 16), DType.FLOAT16: (2, 8), DType.BFLOAT16: (2, 8)}
# A block's columns: few, so that there are blocks for all multiprocessors.
COLUMNS, WIDE_COLUMNS = 32, 64
# Multiplications that a block's threads share have four columns each.
THREAD_COLUMNS = 4


def skinny_form(
    left: Load, right: Load, axes: ProductAxes, width: int | None, is_partial: bool
) -> SkinnyForm | None:
    """The form for few rows of these operands, or None where there is none.

    `width` is the number of neighbouring columns that an epilogue works on together, if any; an
    epilogue that `is_partial` needs them to be a block's.
    """
    if left.dtype is not right.dtype or left.dtype not in MOST_ROWS:
        return None
    rows = MOST_ROWS[left.dtype]
    count = axes.rows.constant
    if count is not None:
        rows = tuple(most for most in rows if count <= most)[:1]
    views = operand_views(left, right, axes)
    if not rows or views is None or views[0].major is not Major.DEPTH:
        return None
    for columns in (COLUMNS, WIDE_COLUMNS):
        if width is None or columns == width or (columns % width == 0 and not is_partial):
            return SkinnyForm(rows, columns, *views)
    return None
