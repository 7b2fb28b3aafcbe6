"""Operations that PyTorch's own kernels do."""

from __future__ import annotations

from fusegen.ir.graph import Node
from fusegen.ir.integers import product
from fusegen.ops.primitive.convolutions import CONVOLUTION, INPUT_GRADIENT
from fusegen.ops.record import LibraryCall
from fusegen.plan.cost import Cost, SizeHints
from fusegen.plan.group import Context, Group, NotApplicable
from fusegen.plan.kernels.library import LibraryPlan


def plan(group: Group, context: Context) -> tuple[LibraryPlan, ...]:
    """One call for the one operation; its operands stand in memory."""
    calls = group.having(LibraryCall)
    if not calls:
        raise NotApplicable("no operation is left to a library")
    if len(group.nodes) > 1:
        raise NotApplicable("a library's kernel takes nothing else in")
    (node,) = calls
    operands = tuple(context.buffers[operand] for operand in node.operands)
    hints = context.hints
    cost = Cost(
        reads=sum(hints.value(buffer.bytes) for buffer in operands),
        writes=hints.value(context.buffers[node].bytes),
        flops=0,
        library_flops=_convolution_flops(node, hints),
    )
    why = f"{node.operation.name} is left to PyTorch's own kernel, which fusegen does not rewrite"
    return (LibraryPlan(node, operands, context.buffers[node], why, cost),)


def _convolution_flops(node: Node, hints: SizeHints) -> int:
    """What a convolution or the gradient of one's input multiplies and adds; 0 for other
    operations."""
    if node.operation not in (CONVOLUTION, INPUT_GRADIENT) or node.attributes.flag("transposed"):
        return 0
    weight = node.operands[-1] if node.operation is INPUT_GRADIENT else node.operands[1]
    result = node.operands[0] if node.operation is INPUT_GRADIENT else node
    return 2 * hints.value(result.type.count) * hints.value(product(weight.shape[1:]))
