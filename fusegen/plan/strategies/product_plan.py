"""The plan of a product with a given epilogue: its forms, its cost, and why it is so."""

from __future__ import annotations

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Node
from fusegen.plan.access import Access, access
from fusegen.plan.accounting import Work
from fusegen.plan.cost import Cost, SizeHints
from fusegen.plan.expressions import WindowLoad
from fusegen.plan.group import Context, Group, NotApplicable
from fusegen.plan.kernels.epilogues import ElementEpilogue, Epilogue, PartialEpilogue
from fusegen.plan.kernels.product import ProductPlan, SharedTile
from fusegen.plan.kernels.product_forms import WgmmaForm
from fusegen.plan.matrix_views import moves_evenly
from fusegen.plan.prologue import PREPARED_WHY, Preparation
from fusegen.plan.shared_depth import BLOCKS, SHARED_WHY, shared_depth
from fusegen.plan.skinny import skinny_form
from fusegen.plan.split_product import SPLIT_WHY, split_cost
from fusegen.plan.strategies.product_forms import forms_on_tiles, split_forms, widest_form
from fusegen.plan.strategies.product_operands import ProductOperands, prepared_seconds
from fusegen.plan.tensor_cores import TENSOR_DTYPES, mma_form

WINDOWS_WHY = (
    "one operand is the input as a convolution's kernel sees it, of which a step's part is copied "
    "from where it stands"
)


def product_plan(
    group: Group,
    context: Context,
    node: Node,
    tile: SharedTile,
    epilogue: Epilogue,
    work: Work,
    why: str,
) -> ProductPlan:
    """The plan of a group around the product `node` with such an epilogue, which does `work`;
    `tile` is that outside the tensor cores. Raises `NotApplicable` where operands had better be
    made by a kernel of their own."""
    operands = ProductOperands.of(group, context, node)
    axes, hints = operands.axes, context.hints
    left, right = operands.left.source, operands.right.source
    width = None if isinstance(epilogue, ElementEpilogue) else epilogue.width
    widest = widest_form(operands, width, context)
    preparation = operands.preparation(hints)
    least_seconds = 0.0
    if preparation is not None:
        if widest is None:
            raise NotApplicable("an operand is made while it is loaded for tensor cores only")
        least_seconds = prepared_seconds(operands, preparation, group, context, work)
        why = f"{why}; {PREPARED_WHY}"
    forms, tuned = (
        forms_on_tiles(widest, operands, epilogue, width, context) if widest else ((), ())
    )
    if not forms:
        forms = split_forms(operands, epilogue, width, context)
    cores = forms[0] if forms else None
    is_partial = isinstance(epilogue, PartialEpilogue)
    skinny = None if preparation else skinny_form(left, right, axes, width, is_partial)
    windows = [load.windows for load in (left, right) if isinstance(load, WindowLoad)]
    is_whole = cores is not None or any(found.skips_margins for found in windows)
    shared = None if is_whole else shared_depth(node, axes, tile, BLOCKS, epilogue, context)
    if shared or any(form.shared for form in forms):
        why = f"{why}; {SHARED_WHY}"
    if windows:
        why = f"{why}; {WINDOWS_WHY}"
    if cores and cores.split:
        why = f"{why}; {SPLIT_WHY}"
    elif cores and node.dtype is DType.FLOAT32:
        why = f"{why}; float32 operands are read as TF32"
    return ProductPlan(
        "",
        group.nodes,
        why,
        _cost(operands, work, preparation, least_seconds, cores, hints),
        axes,
        left,
        right,
        access(left.offset, axes.depth, 1) is Access.CONTIGUOUS,
        access(right.offset, axes.depth, 1) is Access.CONTIGUOUS,
        moves_evenly(left, axes.depth),
        moves_evenly(right, axes.depth),
        node.dtype.compute,
        tile,
        epilogue,
        cores,
        forms[1:],
        skinny,
        mma_form(left, right, axes, epilogue),
        # Tiles of 16-bit operands are as quick, even for one row; a few of TF32's are rounded more.
        left.dtype not in TENSOR_DTYPES,
        tuned,
        operands.left.prologue,
        operands.right.prologue,
        shared,
    )


def _cost(
    operands: ProductOperands,
    work: Work,
    preparation: Preparation | None,
    least_seconds: float,
    cores: WgmmaForm | None,
    hints: SizeHints,
) -> Cost:
    """What it costs in the form `cores`, or without one on the shared-memory tile."""
    product_flops = operands.flops(hints)
    cost = Cost(
        work.reads + operands.bytes(hints) + (preparation.reads if preparation else 0),
        work.writes,
        work.flops + (preparation.flops if preparation else 0),
        least_seconds=least_seconds,
        **{_unit(operands.node.dtype, cores): product_flops},
    )
    if cores and cores.split:
        return split_cost(cost, product_flops, cores.split, hints)
    return cost


def _unit(dtype: DType, cores: WgmmaForm | None) -> str:
    """The field of a cost that counts the product's operations."""
    if cores is None or cores.split:
        return "plain_tile_flops"
    return "tf32_flops" if dtype is DType.FLOAT32 else "tensor_flops"
