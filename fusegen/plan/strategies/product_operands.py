"""What a product multiplies: its operands' elements, and what is made of these as they are
loaded."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.ir.graph import Node
from fusegen.ir.integers import Integer
from fusegen.ir.integers import product as product_of
from fusegen.passes.results import COMPUTED
from fusegen.plan.accounting import Work
from fusegen.plan.coordinates import unflatten
from fusegen.plan.cost import Cost, SizeHints
from fusegen.plan.group import Context, Group, NotApplicable
from fusegen.plan.kernels.product import ProductAxes
from fusegen.plan.prologue import Operand, Preparation, operand_of, prologue_work


@dataclass(frozen=True)
class ProductOperands:
    """A product, its loop variables, and the operands' elements at them."""

    node: Node
    axes: ProductAxes
    left: Operand
    right: Operand

    @staticmethod
    def of(group: Group, context: Context, node: Node) -> ProductOperands:
        """Those of a group's product; raises `NotApplicable` where the group makes an operand of
        more than can be done on its way."""
        axes = axes_of(node)
        batch = unflatten(axes.batch, node.shape[:-2])
        evaluator = context.evaluator(group)
        left = evaluator.at(node.operands[0], (*batch, axes.row, axes.depth))
        right = evaluator.at(node.operands[1], (*batch, axes.depth, axes.column))
        return ProductOperands(
            node,
            axes,
            operand_of(left, axes.row, axes.depth),
            operand_of(right, axes.column, axes.depth),
        )

    def flops(self, hints: SizeHints) -> int:
        """The operations of the product."""
        return 2 * hints.value(self.node.type.count * self.axes.depths)

    def bytes(self, hints: SizeHints) -> int:
        """The size of what the operands are loaded from."""
        return sum(hints.value(x.source.buffer.bytes) for x in (self.left, self.right))

    def preparation(self, hints: SizeHints) -> Preparation | None:
        """The work of what is made of them, if anything."""
        return prologue_work(self.left, self.right, self.axes, hints)


def axes_of(node: Node) -> ProductAxes:
    """The loop variables of a product."""
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


def prepared_seconds(
    operands: ProductOperands, preparation: Preparation, group: Group, context: Context, work: Work
) -> float:
    """How long the product takes at least on the tensor cores where its operands are made as they
    are loaded; raises `NotApplicable` where they had better be stored first."""
    if _is_stored(group, operands.node):
        raise NotApplicable("what an operand is made of is needed elsewhere, and stored anyway")
    hints, device = context.hints, context.device
    moved, flops = operands.bytes(hints), operands.flops(hints)
    alone = Cost(moved, work.writes, 0, tensor_flops=flops).estimate(device)
    if not preparation.pays(alone, device):
        raise NotApplicable("making an operand anew for each tile takes longer than storing it")
    return preparation.seconds(alone, device)


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
