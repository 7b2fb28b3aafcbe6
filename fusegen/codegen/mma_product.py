"""The text of a matrix product's form for tensor cores without warpgroup products."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.codegen.kernel_text import contiguous, kernel_arguments
from fusegen.codegen.matrix_text import MatrixText, matrix_text
from fusegen.codegen.operand_prologue import (
    PrologueText,
    prologue_conditions,
    prologue_texts,
)
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
from fusegen.plan.kernels.matrix_view import Major, MatrixView
from fusegen.plan.kernels.product import ProductPlan, Tile
from fusegen.plan.kernels.product_forms import MmaForm

WARP_TILE = 32
ACCESS_BYTES = 16


@dataclass(frozen=True)
class MmaText:
    """What the skeleton `mma_product.cu.j2` fills in.

    The block's sums lie in a tile with `pitch` elements a row; behind it and the epilogue's further
    slots, `tile_bytes` in all, come the stages, `ring_bytes`.
    """

    parameters: tuple[str, ...]
    arguments: tuple[str, ...]
    operands: tuple[MatrixText, ...]
    conditions: tuple[str, ...]
    form: MmaForm
    threads: int
    pitch: int
    elements: TileElementsText
    epilogue: RowEpilogueText | None
    tile_bytes: int
    ring_bytes: int
    prologues: tuple[PrologueText, ...]

    @property
    def preparing(self) -> tuple[str, ...]:
        """What prepares each operand's pieces, where any is prepared."""
        names = {prologue.operand for prologue in self.prologues}
        if not names:
            return ()
        return tuple(
            f"prepare_{side}" if side in names else "Untouched{}" for side in ("left", "right")
        )


def mma_text(plan: ProductPlan, form: MmaForm, scope: Scope, host: Scope) -> MmaText:
    """Fill the skeleton from the plan; `scope` is this kernel's own, `host` the launcher's."""
    epilogue = plan.epilogue
    tile = Tile(form.rows, form.columns, form.depth, form.columns)
    elements = TileElementsText()
    rows = None
    if isinstance(epilogue, ElementEpilogue):
        element = f"tile[tile_row * {tile.pitch} + tile_column]"
        elements = tile_elements(plan, epilogue, scope, element)
        used = tile.rows * tile.pitch * DType.FLOAT32.itemsize
    else:
        rows = row_epilogue(epilogue, tile, plan.accumulator, scope)
        used = rows.shared_bytes
    stage = _stage_bytes(form.left, form.rows, form.depth)
    stage += _stage_bytes(form.right, form.columns, form.depth)
    return MmaText(
        scope.parameters,
        kernel_arguments(scope, host),
        (
            matrix_text("left", form.left, scope, host),
            matrix_text("right", form.right, scope, host),
        ),
        tuple(
            dict.fromkeys(
                (
                    *(contiguous(host, buffer) for buffer in scope.loads if buffer in host.strided),
                    *prologue_conditions(plan, form.left, form.right, host),
                )
            )
        ),
        form,
        form.rows // WARP_TILE * (form.columns // WARP_TILE) * WARP,
        tile.pitch,
        elements,
        rows,
        -(-used // ACCESS_BYTES) * ACCESS_BYTES,
        stage * form.stages,
        prologue_texts(plan, form.left, form.right, scope),
    )


def _stage_bytes(view: MatrixView, lines: int, depth: int) -> int:
    """A tile of the operand, of which each row is padded by one access."""
    itemsize = view.buffer.dtype.itemsize
    height, width = (lines, depth) if view.major is Major.DEPTH else (depth, lines)
    return height * (width * itemsize + ACCESS_BYTES)
