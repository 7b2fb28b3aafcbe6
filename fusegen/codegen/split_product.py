"""The text of a float32 product's split into float16 parts: the kernels that prepare them."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.codegen.kernel_text import contiguous, kernel_arguments
from fusegen.codegen.scope import Scope
from fusegen.ir.integers import ZERO, Integer
from fusegen.plan.kernels.product import ProductPlan
from fusegen.plan.kernels.split_product import Split, SplitOperand


@dataclass(frozen=True)
class PreparationText:
    """The kernel that splits an operand: `element` is one where `line` and `depth` point, `first`
    the position of its line's first element, and `packed` when that is right."""

    name: str
    parameters: tuple[str, ...]
    arguments: tuple[str, ...]
    line: str
    lines: str
    batches: str
    pitch: str
    depths: str
    buffer: str
    element: str
    first: str
    depth_contiguous: bool
    packed: str
    parts: str
    scales: str


@dataclass(frozen=True)
class SplitText:
    """What the tensor-core form of a split product has beside that of another one; an operand that
    is the same for all batches has no `batch`."""

    preparations: tuple[PreparationText, ...]
    promotion: int
    is_compensated: bool
    pitch: str
    left_parts: str
    right_parts: str
    left_scales: str
    right_scales: str
    left_batch: str | None
    right_batch: str | None
    flags: str
    few_apart: bool


def split_text(plan: ProductPlan, split: Split, host: Scope, scope: Scope) -> SplitText:
    """The text of a split; `host` is the launcher's scope, and `scope` that of the kernel whose
    text has the names."""
    axes = plan.axes
    sides = (("left", split.left, axes.row), ("right", split.right, axes.column))
    return SplitText(
        tuple(_preparation(plan, *side, host) for side in sides),
        split.promotion,
        split.is_compensated,
        scope.factor(split.left.pitch),
        scope.buffer(split.left.parts),
        scope.buffer(split.right.parts),
        scope.buffer(split.left.scales),
        scope.buffer(split.right.scales),
        _batch(split.left),
        _batch(split.right),
        scope.buffer(split.flags),
        split.few_apart,
    )


def _batch(operand: SplitOperand) -> str | None:
    return None if operand.batches == Integer.of(1) else "batch_index"


def _preparation(
    plan: ProductPlan, name: str, operand: SplitOperand, line: Integer, host: Scope
) -> PreparationText:
    axes, load = plan.axes, operand.load
    integers = (axes.batch, line, axes.depth, axes.depths, operand.batches, operand.lines)
    scope = Scope.of(plan.name, (load,), (operand.parts, operand.scales), integers)
    strided = load.buffer in scope.strided
    return PreparationText(
        name,
        scope.parameters,
        kernel_arguments(scope, host),
        scope.text(line),
        scope.text(operand.lines),
        scope.text(operand.batches),
        scope.text(operand.pitch),
        scope.text(axes.depths),
        scope.buffer(load.buffer),
        f"{scope.buffer(load.buffer)}[{scope.address(load)}]",
        scope.text(load.offset.substitute({axes.depth.alone: ZERO})),
        operand.depth_contiguous,
        contiguous(host, load.buffer) if strided else "true",
        scope.buffer(operand.parts),
        scope.buffer(operand.scales),
    )
