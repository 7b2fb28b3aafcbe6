"""Matrix products, and what is done with their elements before they leave the chip."""

from __future__ import annotations

from dataclasses import replace

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Node
from fusegen.ir.integers import ZERO, Integer
from fusegen.ir.integers import product as product_of
from fusegen.ops.record import Concatenation, LibraryCall, Pointwise, Product, Reduction
from fusegen.plan.access import Access, access
from fusegen.plan.accounting import elementwise_work, row_work
from fusegen.plan.coordinates import unflatten
from fusegen.plan.evaluate import Domain, Evaluator
from fusegen.plan.expressions import Accumulator
from fusegen.plan.group import Context, Group, NotApplicable
from fusegen.plan.kernels.base import STATIC_SHARED, WARP
from fusegen.plan.kernels.epilogues import ElementEpilogue, GroupEpilogue, PartialEpilogue
from fusegen.plan.kernels.module import Step
from fusegen.plan.kernels.product import SharedTile
from fusegen.plan.kernels.row_program import RowProgram
from fusegen.plan.kernels.stores import Store
from fusegen.plan.phases import build_program
from fusegen.plan.places import place_in
from fusegen.plan.strategies.product_operands import axes_of
from fusegen.plan.strategies.product_plan import product_plan
from fusegen.plan.strategies.rows import (
    finish,
    reduced_by_node,
    state_stores,
    stores_of,
)

# Of 8 x 4 results a thread reads 12 elements for 32 multiplications, and small products still have
# 128 threads a block.
TILE = SharedTile(rows=64, columns=64, depth=16, used_columns=64, own_rows=8, own_columns=4)
# Groups wider than the narrow tile get this one, if they fit.
WIDE_COLUMNS = 128
# How many neighbouring columns an epilogue over elements may work on at once, in any dtype.
VECTORS = (1, 2, 4, 8)


def plan_elements(group: Group, context: Context) -> tuple[Step, ...]:
    """Each element is finished in the registers it was accumulated in."""
    node = _product_of(group)
    if group.having(Reduction):
        raise NotApplicable("the epilogue has a reduction")
    axes = axes_of(node)
    position = (axes.batch * axes.rows + axes.row) * axes.columns + axes.column
    stores = element_stores(group, context, node, position, axes.column)
    count = context.hints.value(node.type.count)
    work = elementwise_work(stores, count, context.hints)
    why = "the product's elements are finished in registers and stored once"
    if any(store.position != position for store in stores):
        why += ", each at its place in a result whose dims have another order"
    epilogue = ElementEpilogue(stores)
    return (product_plan(group, context, node, TILE, epilogue, work, why),)


def element_stores(
    group: Group,
    context: Context,
    node: Node,
    position: Integer,
    column: Integer,
    vectors: tuple[int, ...] = VECTORS,
) -> tuple[Store, ...]:
    """What is done with each element of the product `node`, which a thread holds at the row-major
    `position`. Raises `NotApplicable` where a result has other elements, or where neighbouring
    columns, of which any of `vectors` are stored with one access, do not stand together in it."""
    evaluator = _evaluator(group, context, node, position, None)
    stores = []
    for result in group.results:
        if result.type.count != node.type.count:
            raise NotApplicable("a result has not one element for each of the product's")
        place = place_in(result, node, position, group.nodes)
        if not _keeps_neighbours(place, column, node.shape[-1], vectors):
            raise NotApplicable("neighbouring columns of the product are none in a result")
        value = evaluator.at(result, unflatten(place, result.shape))
        stores.append(Store(context.buffers[result], place, value))
    return tuple(stores)


def _keeps_neighbours(
    place: Integer, column: Integer, columns: Integer, vectors: tuple[int, ...]
) -> bool:
    """Whether what a thread stores with one access, some neighbouring columns, stands together."""
    known = columns.constant
    return all(
        access(place, column, vector, (columns,)) is Access.CONTIGUOUS
        for vector in vectors
        if known is None or known % vector == 0
    )


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
    return (product_plan(group, context, node, tile, epilogue, work, why),)


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
    first = product_plan(group, context, node, TILE, epilogue, work, why)
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
    return replace(evaluator, products={node: unflatten(position, node.shape)})
