"""Operations that PyTorch's own kernels do."""

from __future__ import annotations

from fusegen.ir.graph import Node
from fusegen.ir.integers import product
from fusegen.ops.primitive.convolutions import (
    CONVOLUTION,
    CONVOLUTION_CHANNELS_LAST,
    INPUT_GRADIENT,
)
from fusegen.ops.record import LibraryCall
from fusegen.plan.cost import Cost, SizeHints
from fusegen.plan.group import Context, Group, NotApplicable
from fusegen.plan.kernels.library import LibraryPlan

# How many times as long as over images, for which the device has a rate, PyTorch's convolutions of
# few channels take over planes: they did 4 to 8 Tflop/s with 3 channels, and 0.25 in bfloat16 and
# 1.3 in float32 where they scatter with a stride (KernelBench's sizes, one H200, 2026-12-01).
PLANES, SPREAD_PLANES = 4, 20


def plan(group: Group, context: Context) -> tuple[LibraryPlan, ...]:
    """One call for the one operation; its operands stand in memory."""
    calls = group.having(LibraryCall)
    if not calls:
        raise NotApplicable("no operation is left to a library")
    if len(group.nodes) > 1:
        raise NotApplicable("a library's kernel takes nothing else in")
    (node,) = calls
    operands = tuple(context.buffers[operand] for operand in node.operands)
    hints, device = context.hints, context.device
    cost = Cost(
        reads=sum(hints.value(buffer.bytes) for buffer in operands),
        writes=hints.value(context.buffers[node].bytes),
        flops=0,
        library_flops=_convolution_flops(node, hints),
        least_seconds=_slowness(node) * _convolution_flops(node, hints) / device.library_rate,
    )
    why = f"{node.operation.name} is left to PyTorch's own kernel, which fusegen does not rewrite"
    if node.operation is CONVOLUTION_CHANNELS_LAST:
        why = (
            "a convolution of many channels is left to PyTorch's own kernel, which is quickest "
            "with channels last, as this module has them for it"
        )
    return (LibraryPlan(node, operands, context.buffers[node], why, cost),)


def _convolution_flops(node: Node, hints: SizeHints) -> int:
    """What a convolution or the gradient of one's input multiplies and adds; 0 for other
    operations."""
    if node.operation not in (CONVOLUTION, CONVOLUTION_CHANNELS_LAST, INPUT_GRADIENT):
        return 0
    weight = node.operands[-1] if node.operation is INPUT_GRADIENT else node.operands[1]
    # Of the two sides the one whose elements each meet a whole filter.
    is_scattered = node.attributes.flag("transposed")
    met = node.operands[0] if is_scattered is not (node.operation is INPUT_GRADIENT) else node
    return 2 * hints.value(met.type.count) * hints.value(product(weight.shape[1:]))


def _slowness(node: Node) -> int:
    """How many times as long as over images the library takes for a convolution."""
    if node.type.rank < 5 or node.operation not in (CONVOLUTION, INPUT_GRADIENT):
        return 1
    scatters = node.attributes.flag("transposed") is not (node.operation is INPUT_GRADIENT)
    return SPREAD_PLANES if scatters and max(node.attributes.integers("stride")) > 1 else PLANES
