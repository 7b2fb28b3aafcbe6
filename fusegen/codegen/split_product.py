"""The text of a float32 product's split into float16 parts: the kernel that prepares them."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.codegen.kernel_text import contiguous, kernel_arguments
from fusegen.codegen.scope import Scope
from fusegen.ir.integers import ZERO, Integer
from fusegen.plan.kernels import ProductAxes, ProductPlan, Split, SplitOperand


@dataclass(frozen=True)
class PreparationText:
    """How an operand is split: `element` is one where `line` and `depth` point, `first` the
    position of its line's first element, and `packed` when that is right."""

    name: str
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
    """What the tensor-core form of a split product has beside that of another one: `parameters` and
    `arguments` are those of the kernel that splits the operands, in the order of `preparations`. An
    operand that is the same for all batches has no `batch`."""

    parameters: tuple[str, ...]
    arguments: tuple[str, ...]
    preparations: tuple[PreparationText, ...]
    promoted_steps: int
    pitch: str
    left_parts: str
    right_parts: str
    left_scales: str
    right_scales: str
    left_batch: str | None
    right_batch: str | None
    flags: str


def split_text(plan: ProductPlan, split: Split, depth: int, host: Scope) -> SplitText:
    """The text of a split whose tiles have `depth` of K; `host` is the launcher's scope."""
    axes = plan.axes
    # The left operand comes last: it is the smaller one mostly, and its parts stay in the L2 cache.
    sides = (("right", split.right, axes.column), ("left", split.left, axes.row))
    operands = (split.right, split.left)
    integers = [axes.batch, axes.row, axes.column, axes.depth, axes.depths]
    for operand in operands:
        integers += (operand.batches, operand.lines)
    written = tuple(buffer for o in operands for buffer in (o.parts, o.scales))
    scope = Scope.of(tuple(operand.load for operand in operands), written, tuple(integers))
    return SplitText(
        scope.parameters,
        kernel_arguments(scope),
        tuple(_preparation(axes, *side, scope, host) for side in sides),
        split.promotion // depth,
        host.factor(split.left.pitch),
        host.buffer(split.left.parts),
        host.buffer(split.right.parts),
        host.buffer(split.left.scales),
        host.buffer(split.right.scales),
        _batch(split.left),
        _batch(split.right),
        host.buffer(split.flags),
    )


def _batch(operand: SplitOperand) -> str | None:
    return None if operand.batches == Integer.of(1) else "batch_index"


def _preparation(
    axes: ProductAxes, name: str, operand: SplitOperand, line: Integer, scope: Scope, host: Scope
) -> PreparationText:
    load = operand.load
    return PreparationText(
        name,
        scope.text(line),
        scope.text(operand.lines),
        scope.text(operand.batches),
        scope.text(operand.pitch),
        scope.text(axes.depths),
        scope.buffer(load.buffer),
        f"{scope.buffer(load.buffer)}[{scope.address(load)}]",
        scope.text(load.offset.substitute({axes.depth.alone: ZERO})),
        operand.depth_contiguous,
        contiguous(host, load.buffer) if load.buffer in scope.strided else "true",
        scope.buffer(operand.parts),
        scope.buffer(operand.scales),
    )
