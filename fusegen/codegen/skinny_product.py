"""The text of a matrix product's form for few rows."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.codegen.kernel_text import contiguous, kernel_arguments
from fusegen.codegen.matrix_text import MatrixText, matrix_text
from fusegen.codegen.scope import Scope
from fusegen.codegen.tile_epilogue import (
    RowEpilogueText,
    TileElementsText,
    row_epilogue,
    tile_elements,
)
from fusegen.ir.dtypes import DType
from fusegen.plan.kernels.base import WARP
from fusegen.plan.kernels.epilogues import ElementEpilogue
from fusegen.plan.kernels.product import ProductPlan, Tile
from fusegen.plan.kernels.product_forms import SkinnyForm
from fusegen.plan.skinny import THREAD_COLUMNS


@dataclass(frozen=True)
class SkinnyText:
    """What the skeleton `skinny_product.cu.j2` fills in.

    There is a kernel for each of `rows`. The block's sums lie in a tile of `tile_rows` rows with
    `pitch` elements each; behind it and the epilogue's further slots, `shared_bytes` in all, is
    room for `partial_bytes` of the warps' sums.
    """

    parameters: tuple[str, ...]
    arguments: tuple[str, ...]
    operands: tuple[MatrixText, ...]
    conditions: tuple[str, ...]
    rows: tuple[int, ...]
    columns: int
    threads: int
    tile_rows: int
    pitch: int
    elements: TileElementsText
    epilogue: RowEpilogueText | None
    shared_bytes: int
    partial_bytes: int


def skinny_text(plan: ProductPlan, form: SkinnyForm, scope: Scope, host: Scope) -> SkinnyText:
    """Fill the skeleton from the plan; `scope` is this kernel's own, `host` the launcher's."""
    epilogue = plan.epilogue
    most = max(form.rows)
    tile = Tile(rows=most, columns=form.columns, depth=0, used_columns=form.columns)
    warps = form.columns // THREAD_COLUMNS
    elements = TileElementsText()
    rows = None
    if isinstance(epilogue, ElementEpilogue):
        element = f"tile[tile_row * {tile.pitch} + tile_column]"
        elements = tile_elements(plan, epilogue, scope, element)
        shared_bytes = tile.rows * tile.pitch * DType.FLOAT32.itemsize
    else:
        rows = row_epilogue(epilogue, tile, plan.accumulator, scope)
        shared_bytes = rows.shared_bytes
    left = matrix_text("left", form.left, scope, host)
    right = matrix_text("right", form.right, scope, host)
    depth = 16 // plan.left.dtype.itemsize
    conditions = [contiguous(host, buffer) for buffer in scope.loads if buffer in host.strided]
    conditions += [f"depths % {depth} == 0"]
    in_columns = right.neighbours == "in_columns"
    if in_columns:
        conditions.append(f"columns % {THREAD_COLUMNS} == 0")
    return SkinnyText(
        scope.parameters,
        kernel_arguments(scope, host),
        (left, right),
        tuple(conditions),
        form.rows,
        form.columns,
        warps * WARP,
        tile.rows,
        tile.pitch,
        elements,
        rows,
        -(-shared_bytes // 16) * 16,
        warps * most * form.columns * DType.FLOAT32.itemsize if in_columns else 0,
    )
