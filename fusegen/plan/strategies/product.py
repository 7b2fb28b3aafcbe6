"""Matrix products, and what is done with their elements before they leave the chip."""

from __future__ import annotations

from dataclasses import replace

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Node
from fusegen.ir.integers import ZERO, Integer
from fusegen.ir.integers import product as product_of
from fusegen.ops.record import Concatenation, LibraryCall, Pointwise, Product, Reduction
from fusegen.passes.results import COMPUTED
from fusegen.plan.access import Access, access
from fusegen.plan.accounting import Work, elementwise_work, row_work
from fusegen.plan.coordinates import unflatten
from fusegen.plan.cost import Cost
from fusegen.plan.evaluate import Domain, Evaluator
from fusegen.plan.expressions import Accumulator
from fusegen.plan.group import Context, Group, NotApplicable
from fusegen.plan.kernels.base import WARP
from fusegen.plan.kernels.epilogues import ElementEpilogue, Epilogue, GroupEpilogue, PartialEpilogue
from fusegen.plan.kernels.module import Step
from fusegen.plan.kernels.product import ProductAxes, ProductPlan, SharedTile, TunedRows
from fusegen.plan.kernels.product_forms import WgmmaForm
from fusegen.plan.kernels.row_program import RowProgram
from fusegen.plan.kernels.stores import Store
from fusegen.plan.matrix_views import moves_evenly
from fusegen.plan.phases import build_program
from fusegen.plan.preferences import ProductShape
from fusegen.plan.prologue import PREPARED_WHY, Operand, operand_of, prologue_work
from fusegen.plan.shared_depth import (
    BLOCKS,
    SHARED_WHY,
    shared_depth,
    shared_tiles,
    with_shared_depth,
)
from fusegen.plan.skinny import skinny_form
from fusegen.plan.split_product import SPLIT_WHY, split_cost, split_product
from fusegen.plan.strategies.rows import (
    finish,
    reduced_by_node,
    state_stores,
    stores_of,
)
from fusegen.plan.tensor_cores import (
    TENSOR_DTYPES,
    exchanging_results,
    mma_form,
    tensor_cores,
    tile_forms,
)

# Of 8 x 4 results a thread reads 12 elements for 32 multiplications, and small products still have
# 128 threads a block.
TILE = SharedTile(rows=64, columns=64, depth=16, used_columns=64, own_rows=8, own_columns=4)
# Groups wider than the narrow tile get this one, if they fit.
WIDE_COLUMNS = 128
# What a kernel may declare of shared memory.
STATIC_SHARED = 48 * 1024


def plan_elements(group: Group, context: Context) -> tuple[Step, ...]:
    """Each element is finished in the registers it was accumulated in."""
    node = _product_of(group)
    if group.having(Reduction):
        raise NotApplicable("the epilogue has a reduction")
    axes = _axes(node)
    position = (axes.batch * axes.rows + axes.row) * axes.columns + axes.column
    evaluator = _evaluator(group, context, node, position, None)
    stores = []
    for result in group.results:
        if result.type.count != node.type.count:
            raise NotApplicable("a result has not one element for each of the product's")
        value = evaluator.at(result, unflatten(position, result.shape))
        stores.append(Store(context.buffers[result], position, value))
    count = context.hints.value(node.type.count)
    work = elementwise_work(tuple(stores), count, context.hints)
    why = "the product's elements are finished in registers and stored once"
    return (_plan(group, context, node, TILE, ElementEpilogue(tuple(stores)), work, why),)


def plan_groups(group: Group, context: Context) -> tuple[Step, ...]:
    """Reductions over groups of neighbouring columns that lie inside one tile."""
    node = _product_of(group)
    reductions = group.having(Reduction)
    if not reductions:
        raise NotApplicable("nothing is reduced")
    columns = node.shape[-1].constant
    groups = product_of(reductions[0].shape)
    if groups == ZERO:
        raise NotApplicable("the reduction's result has no elements")
    width = (node.type.count // groups).constant
    if columns is None or width is None or groups * width != node.type.count:
        raise NotApplicable("the reduced groups do not divide the product's columns")
    if width == 1:
        raise NotApplicable("groups of one column are elements of the product themselves")
    if columns % width or width > WIDE_COLUMNS:
        raise NotApplicable(f"groups of {width} columns do not fit into a tile")
    tile = _tile_of_groups(width, node.dtype.compute)
    domain = _groups_of_lines(product_of(node.shape[:-1]), columns // width, width)
    position = domain.row * width + domain.column
    evaluator = _evaluator(group, context, node, position, domain)
    elements, rows = stores_of(group, context, evaluator)
    source = evaluator.expressions.intern(Accumulator(node.dtype, "accumulator"))
    program = build_program(domain, elements, rows, (), keep=True, source=source)
    if _shared_bytes(tile, program, node.dtype.compute) > context.device.shared_memory:
        raise NotApplicable("what the epilogue keeps of a tile does not fit into shared memory")
    lanes = min(WARP, 1 << max(width - 1, 0).bit_length())
    epilogue = GroupEpilogue(program, width, lanes)
    work = row_work(program, context.hints)
    why = (
        f"groups of {width} columns lie inside a tile of {tile.used_columns}, so their statistics "
        "need no memory traffic and the product is not stored"
    )
    return (_plan(group, context, node, tile, epilogue, work, why),)


def _tile_of_groups(width: int, accumulator: DType) -> SharedTile:
    """A tile of whole groups; its steps are shorter where two would not fit into a block's static
    shared memory."""
    columns = TILE.columns if width <= TILE.columns else WIDE_COLUMNS
    tile = replace(TILE, columns=columns, used_columns=columns // width * width)
    if tile.operand_bytes(accumulator.itemsize) > STATIC_SHARED:
        tile = replace(tile, depth=tile.depth // 2)
    return tile


def _groups_of_lines(lines: Integer, groups: int, width: int) -> Domain:
    """Rows that are groups of `width` columns, `groups` of them in each line of the product.

    A group's number is told by its line and its place there, so that what depends on the columns
    alone can be seen to be the same for all lines.
    """
    row = Integer.symbol("line", lines) * groups + Integer.symbol("line_group", groups)
    return Domain(row, Integer.symbol("column", width), lines * groups, Integer.of(width))


def plan_partials(group: Group, context: Context) -> tuple[Step, ...]:
    """Reductions over all columns: each tile leaves states, and a small kernel merges them."""
    node = _product_of(group)
    if not group.having(Reduction):
        raise NotApplicable("nothing is reduced")
    if any(result.type.count == node.type.count for result in group.results):
        raise NotApplicable(
            "the product's elements are needed elsewhere, so they are stored anyway"
        )
    columns = node.shape[-1]
    domain = Domain.of(product_of(node.shape[:-1]), columns)
    evaluator = _evaluator(
        group, context, node, domain.row * columns + domain.column, domain, two_pass=False
    )
    stores_of(group, context, evaluator)  # refuses results that are not one a row
    reductions = reduced_by_node(group, evaluator)
    parts = (columns + (TILE.columns - 1)) // TILE.columns
    states = state_stores(reductions, context, domain, parts)
    source = evaluator.expressions.intern(Accumulator(node.dtype, "accumulator"))
    program = build_program(domain, (), (), tuple(reductions.values()), keep=True, source=source)
    if len(program.phases) != 1:
        raise NotApplicable("a reduction needs the result of another one over the same row")
    program = replace(program, states=tuple(dict.fromkeys(states.values())))
    work = row_work(program, context.hints)
    why = "each tile leaves one small state a row, so the product never reaches memory"
    epilogue = PartialEpilogue(program, TILE.columns, WARP)
    first = _plan(group, context, node, TILE, epilogue, work, why)
    return (first, finish(group, context, states, domain, parts))


def _shared_bytes(tile: SharedTile, program: RowProgram, accumulator: DType) -> int:
    """The shared memory of a block: steps of both operands, and a tile for each slot."""
    operands = tile.operand_bytes(accumulator.itemsize)
    return operands + sum(tile.rows * tile.pitch * dtype.itemsize for dtype in program.slots)


def _product_of(group: Group) -> Node:
    products = group.having(Product)
    if len(products) != 1:
        raise NotApplicable("the group has not exactly one matrix product")
    if products[0].type.count == ZERO:
        raise NotApplicable("the product has no elements")
    if group.having(LibraryCall):
        raise NotApplicable("the group has a library call")
    others = [n for n in group.nodes if n is not products[0]]
    if any(not isinstance(n.operation, (Pointwise, Reduction, Concatenation)) for n in others):
        raise NotApplicable("the epilogue has something else than elementwise and reductions")
    return products[0]


def _axes(node: Node) -> ProductAxes:
    batches = product_of(node.shape[:-2])
    rows, columns = node.shape[-2:]
    depths = node.operands[0].shape[-1]
    return ProductAxes(
        Integer.symbol("batch_index", batches),
        Integer.symbol("row", rows),
        Integer.symbol("column", columns),
        Integer.symbol("depth", depths),
        batches,
        rows,
        columns,
        depths,
    )


def _evaluator(
    group: Group,
    context: Context,
    node: Node,
    position: Integer,
    domain: Domain | None,
    *,
    two_pass: bool = True,
) -> Evaluator:
    """An evaluator whose thread holds the product's element at the row-major `position`."""
    evaluator = context.evaluator(group, domain=domain, two_pass=two_pass)
    return replace(evaluator, product=node, product_at=unflatten(position, node.shape))


def _operands(
    group: Group, context: Context, node: Node, axes: ProductAxes
) -> tuple[Operand, Operand]:
    batch = unflatten(axes.batch, node.shape[:-2])
    evaluator = context.evaluator(group)
    left = evaluator.at(node.operands[0], (*batch, axes.row, axes.depth))
    right = evaluator.at(node.operands[1], (*batch, axes.depth, axes.column))
    return operand_of(left, axes.row, axes.depth), operand_of(right, axes.column, axes.depth)


def _plan(
    group: Group,
    context: Context,
    node: Node,
    tile: SharedTile,
    epilogue: Epilogue,
    work: Work,
    why: str,
) -> ProductPlan:
    axes = _axes(node)
    left_operand, right_operand = _operands(group, context, node, axes)
    left, right = left_operand.source, right_operand.source
    hints = context.hints
    width = None if isinstance(epilogue, ElementEpilogue) else epilogue.width
    cores = tensor_cores(
        left,
        right,
        axes,
        width,
        context.precision,
        is_right_prepared=right_operand.prologue is not None,
    )
    product_flops = 2 * hints.value(node.type.count * axes.depths)
    preparation = prologue_work(left_operand, right_operand, axes, hints)
    least_seconds = 0.0
    if preparation is not None:
        if cores is None:
            raise NotApplicable("an operand is made while it is loaded for tensor cores only")
        if _is_stored(group, node):
            raise NotApplicable("what an operand is made of is needed elsewhere, and stored anyway")
        moved = hints.value(left.buffer.bytes) + hints.value(right.buffer.bytes)
        alone = Cost(moved, work.writes, 0, tensor_flops=product_flops).estimate(context.device)
        if not preparation.pays(alone, context.device):
            raise NotApplicable("making an operand anew for each tile takes longer than storing it")
        least_seconds = preparation.seconds(alone, context.device)
        why = f"{why}; {PREPARED_WHY}"
    cores = exchanging_results(cores, epilogue) if cores else None
    shared_form = shared_tiles(cores, node, axes, epilogue, context) if cores else None
    forms, tuned = _on_tiles(cores, axes, width, context, shared_form) if cores else ((), ())
    if not forms:
        split = split_product(node, left, right, axes, width, context)
        shared_form = with_shared_depth(split, node, axes, epilogue, context) if split else None
        forms = tuple(form for form in (split, shared_form) if form)
    cores = forms[0] if forms else None
    is_partial = isinstance(epilogue, PartialEpilogue)
    skinny = None if preparation else skinny_form(left, right, axes, width, is_partial)
    cost = Cost(
        work.reads
        + hints.value(left.buffer.bytes)
        + hints.value(right.buffer.bytes)
        + (preparation.reads if preparation else 0),
        work.writes,
        work.flops + (preparation.flops if preparation else 0),
        least_seconds=least_seconds,
        **{_unit(node.dtype, cores): product_flops},
    )
    shared = None if cores else shared_depth(node, axes, tile, BLOCKS, epilogue, context)
    if shared or any(form.shared for form in forms):
        why = f"{why}; {SHARED_WHY}"
    if cores and cores.split:
        cost = split_cost(cost, product_flops, cores.split, hints)
        why = f"{why}; {SPLIT_WHY}"
    elif cores and node.dtype is DType.FLOAT32:
        why = f"{why}; float32 operands are read as TF32"
    return ProductPlan(
        "",
        group.nodes,
        why,
        cost,
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
        left_operand.prologue,
        right_operand.prologue,
        shared,
    )


def _is_stored(group: Group, product: Node) -> bool:
    """Whether others need what the group makes the product's operands of."""
    below, seen = [*product.operands], set[Node]()
    while below:
        node = below.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in group.results:
            return True
        if node in group.nodes or not isinstance(node.operation, COMPUTED):
            below += node.operands
    return False


def _on_tiles(
    cores: WgmmaForm,
    axes: ProductAxes,
    width: int | None,
    context: Context,
    shared: WgmmaForm | None,
) -> tuple[tuple[WgmmaForm, ...], tuple[TunedRows, ...]]:
    """The forms among which a launch chooses, and the tuned choices among them."""
    processors, preferences = context.device.processors, context.preferences
    forms = tile_forms(cores, axes, width, processors, preferences, shared)
    kinds = [form.kind for form in forms] if len(forms) > 1 else []
    tuned = context.preferences.rows(ProductShape.of(cores, axes))
    return forms, tuple(rows for rows in tuned if rows.kind in kinds)


def _unit(dtype: DType, cores: WgmmaForm | None) -> str:
    """The field of a cost that counts the product's operations."""
    if cores is None or cores.split:
        return "product_flops"
    return "tf32_flops" if dtype is DType.FLOAT32 else "tensor_flops"
