"""What a product multiplies should be a matrix in memory, or the tensor cores cannot read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from fusegen.ir.graph import Graph, Node, Placeholder
from fusegen.ops.construct import call
from fusegen.ops.pointwise.functions import CLONE
from fusegen.ops.record import Product
from fusegen.passes.results import COMPUTED
from fusegen.passes.rewrite import rewrite
from fusegen.plan.buffers import Buffer, BufferRole
from fusegen.plan.coordinates import unflatten
from fusegen.plan.cost import Cost, Device, SizeHints
from fusegen.plan.evaluate import Evaluator
from fusegen.plan.expressions import Expressions, Load
from fusegen.plan.matrix_views import matrix_view
from fusegen.plan.strategies.product_operands import axes_of
from fusegen.plan.tensor_cores import TENSOR_DTYPES
from fusegen.plan.window import Windows


def store_scattered_operands(graph: Graph, device: Device, hints: SizeHints) -> Graph:
    """Copy an operand of 16 bits that a product reads through views, such as heads that stand apart
    in memory and are multiplied side by side, if it is no matrix there and the tensor cores make up
    for the copy."""
    copies: dict[Node, Node] = {}

    def rule(node: Node) -> Node:
        if not isinstance(node.operation, Product) or node.dtype not in TENSOR_DTYPES:
            return node
        copied = [_view_to_copy(operand, node) for operand in node.operands]
        views = {view: None for view in copied if view is not None and view not in copies}
        if not any(copied) or not _pays(node, views, device, hints):
            return node
        copies.update((view, call(CLONE, (view,))) for view in views)
        pairs = zip(node.operands, copied, strict=True)
        stored = (operand if view is None else _stored(operand, copies) for operand, view in pairs)
        return replace(node, operands=tuple(stored))

    return rewrite(graph, rule)


def _view_to_copy(operand: Node, product: Node) -> Node | None:
    """The view of the value in memory, as close to it as can be so that others may read the same
    copy, of which a copy makes the operand a matrix; None if it is one already."""
    views: list[Node] = []
    base = operand
    while not isinstance(base.operation, (Placeholder, *COMPUTED)):
        if len(base.operands) != 1 or isinstance(base.operation, Windows):
            return None  # windows are far larger than what they are read from
        views.insert(0, base)
        (base,) = base.operands
    if _is_matrix(operand, product, base):
        return None
    return next((view for view in views if _is_matrix(operand, product, view)), None)


def _is_matrix(operand: Node, product: Node, stored: Node) -> bool:
    """Whether the operand is one where that value stands in memory."""
    is_argument = isinstance(stored.operation, Placeholder)
    role = BufferRole.ARGUMENT if is_argument else BufferRole.WORKSPACE
    evaluator = Evaluator({stored: Buffer("stored", role, stored.type)}, Expressions())
    axes = axes_of(product)
    batch = unflatten(axes.batch, product.shape[:-2])
    if operand is product.operands[0]:
        line, at = axes.row, (*batch, axes.row, axes.depth)
    else:
        line, at = axes.column, (*batch, axes.depth, axes.column)
    element = evaluator.at(operand, at)
    if not isinstance(element, Load):  # made as it is read
        return True
    return matrix_view(element, axes.batch, line, axes.depth) is not None


def _stored(operand: Node, copies: Mapping[Node, Node]) -> Node:
    """The operand, read from the copy of a view that leads to it."""
    if operand in copies:
        return copies[operand]
    (below,) = operand.operands
    return replace(operand, operands=(_stored(below, copies),))


def _pays(product: Node, copied: Iterable[Node], device: Device, hints: SizeHints) -> bool:
    """Whether these copies and the tensor cores are quicker than the shared-memory tile, which
    reads any operand."""
    flops = 2 * hints.value(product.type.count * axes_of(product).depths)
    moved = sum(hints.value(o.type.count) * o.dtype.itemsize for o in copied)
    copies = Cost(moved, moved, 0).estimate(device)
    return copies + flops / device.tensor_rate < flops / device.plain_tile_rate
