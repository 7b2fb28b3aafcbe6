"""The forms of a product for Hopper's tensor cores, among which a launch chooses: tiles of several
widths, K in parts, operands in parts."""

from __future__ import annotations

from fusegen.plan.group import Context
from fusegen.plan.kernels.epilogues import Epilogue
from fusegen.plan.kernels.product import TunedRows
from fusegen.plan.kernels.product_forms import WgmmaForm
from fusegen.plan.preferences import ProductShape
from fusegen.plan.shared_depth import shared_tiles, with_shared_depth
from fusegen.plan.split_product import split_product
from fusegen.plan.strategies.product_operands import ProductOperands
from fusegen.plan.tensor_cores import tensor_cores, tile_forms, with_wide_accesses


def widest_form(operands: ProductOperands, width: int | None, context: Context) -> WgmmaForm | None:
    """The form that multiplies the operands as they are, on the widest tiles; None where there is
    none. `width` is the number of neighbouring columns that an epilogue works on together, if any.
    """
    return tensor_cores(
        operands.left.source,
        operands.right.source,
        operands.axes,
        width,
        context.precision,
        is_left_prepared=operands.left.prologue is not None,
        is_right_prepared=operands.right.prologue is not None,
    )


def forms_on_tiles(
    widest: WgmmaForm,
    operands: ProductOperands,
    epilogue: Epilogue,
    width: int | None,
    context: Context,
) -> tuple[tuple[WgmmaForm, ...], tuple[TunedRows, ...]]:
    """The form on the tiles that are worth a kernel, and the tuned choices among them."""
    node, axes = operands.node, operands.axes
    cores = with_wide_accesses(widest, epilogue, axes)
    if cores is None:
        return (), ()
    shared = shared_tiles(cores, node, axes, epilogue, context)
    processors, preferences = context.device.processors, context.preferences
    forms = tile_forms(cores, axes, width, processors, preferences, shared)
    kinds = [form.kind for form in forms] if len(forms) > 1 else []
    tuned = preferences.rows(ProductShape.of(cores, axes))
    return forms, tuple(rows for rows in tuned if rows.kind in kinds)


def split_forms(
    operands: ProductOperands, epilogue: Epilogue, width: int | None, context: Context
) -> tuple[WgmmaForm, ...]:
    """The forms that multiply float16 parts of the operands: one with whole sums and, where it is
    worth it, one whose blocks share K. None where the shared-memory tile does the product."""
    node, axes = operands.node, operands.axes
    sources = operands.left.source, operands.right.source
    split = split_product(node, *sources, axes, width, context)
    if split is None:
        return ()
    sharing = with_shared_depth(split, node, axes, epilogue, context)
    return (split, sharing) if sharing else (split,)
