"""What a product makes of an operand's elements on their way from memory to the tensor cores."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from fusegen.ir.integers import Integer
from fusegen.plan.access import Access, access
from fusegen.plan.accounting import expression_cost
from fusegen.plan.cost import Cost, Device, SizeHints
from fusegen.plan.expressions import Compute, Expression, Literal, Load, Loaded, Size, walk
from fusegen.plan.group import NotApplicable
from fusegen.plan.kernels.product import ProductAxes
from fusegen.plan.tensor_cores import ACCESS_BYTES, TENSOR_DTYPES, WIDE
from fusegen.plan.tile_waves import ROWS

PREPARED_WHY = "an operand is made in shared memory, where its tiles arrive, beside the products"

# All but SHARED_COST were measured on an H200 (docs/notes/tensor-core-products.md). Instructions
# for an element that is read from shared memory, unpacked, packed and written, and for each that it
# meets from memory.
ACCESS_COST = 11
# The same for what it meets where neighbours lie in depth: a value for its line is loaded once for
# 8 neighbours, and a vector for their depth once for all lines of a thread. Reckoned from machine
# code: up to half an instruction, and waiting for it.
SHARED_COST = 1
# The part of a multiprocessor's instructions that is to be had beside the products.
PREPARING = 1 / 2
# How many times as long the products take where that does not decide.
SLOWED = 1.1


@dataclass(frozen=True)
class Operand:
    """What is loaded of an operand's element, and what is made of that as it arrives, if
    anything."""

    source: Load
    prologue: Expression | None = None


def operand_of(value: Expression, line: Integer, depth: Integer) -> Operand:
    """An operand's element `value` at a line and depth; raises `NotApplicable` where it is not made
    of one element of its own dtype in memory, beside what neighbours share."""
    if isinstance(value, Load):
        return Operand(value)
    axes = {line.alone, depth.alone}
    found = [*walk((value,))]
    if any(not isinstance(e, (Compute, Literal, Load, Size)) for e in found):
        raise NotApplicable("an operand is made of more than elementwise operations")
    sources = [e for e in found if isinstance(e, Load) and axes <= e.symbols]
    if not sources:
        raise NotApplicable("an operand is made of smaller tensors")
    if len(sources) > 1:  # what groups of an operand's elements share is not as large as it is
        sources = [e for e in sources if _moves_along(e, line) or _moves_along(e, depth)]
    if len(sources) != 1:
        raise NotApplicable(f"an operand is made of {len(sources)} tensors as large as it is")
    (source,) = sources
    if source.dtype is not value.dtype or source.dtype not in TENSOR_DTYPES:
        raise NotApplicable("only operands of 16 bits are made as they are loaded")
    made: dict[Expression, Expression] = {}
    for expression in found:
        if expression is source:
            made[expression] = Loaded(source.dtype, source.name)
        elif isinstance(expression, Compute):
            operands = tuple(made[o] for o in expression.operands)
            made[expression] = replace(expression, operands=operands)
        else:
            made[expression] = expression
    return Operand(source, made[value])


def _moves_along(load: Load, axis: Integer) -> bool:
    return access(load.offset, axis, 1) is Access.CONTIGUOUS


@dataclass(frozen=True)
class Preparation:
    """What prologues read beside the operands and the size of what they are made of, both in bytes,
    the elementary operations that they are, and all instructions: each of the product's tiles makes
    the elements that it loads."""

    reads: int
    made: int
    flops: int
    instructions: int
    tiles: int

    def pays(self, product_seconds: float, device: Device) -> bool:
        """Whether the product, which takes `product_seconds` without them, is done before one that
        reads what kernels of their own have made."""
        apart = Cost(self.made, self.made, 0).estimate(device)
        return self.seconds(product_seconds, device) < product_seconds + apart

    def seconds(self, product_seconds: float, device: Device) -> float:
        """How long it takes with a product that takes `product_seconds` without it."""
        if not self.tiles:
            return math.inf
        busy = min(1.0, self.tiles / device.processors)
        preparing = self.instructions / (device.issue_rate * PREPARING * busy)
        return max(SLOWED * product_seconds, preparing)


def prologue_work(
    left: Operand, right: Operand, axes: ProductAxes, hints: SizeHints
) -> Preparation | None:
    """The work of both operands' prologues, if any."""
    if left.prologue is None and right.prologue is None:
        return None
    depths = hints.value(axes.depths)
    rows, columns = hints.value(axes.rows), hints.value(axes.columns)
    row_tiles, column_tiles = -(-rows // ROWS), -(-columns // WIDE)
    tiles = hints.value(axes.batches) * row_tiles * column_tiles
    loaded = tiles * ROWS, tiles * WIDE  # a step takes as long where its tile is not full
    reads = made = flops = instructions = 0
    for operand, lines in zip((left, right), loaded, strict=True):
        if operand.prologue is not None:
            found = [*walk((operand.prologue,))]
            cost = expression_cost(found)
            loads = [e for e in found if isinstance(e, Load)]
            reads += sum(hints.value(b.bytes) for b in dict.fromkeys(e.buffer for e in loads))
            made += hints.value(operand.source.buffer.bytes)
            flops += depths * lines * cost
            met = sum(_cost_of_meeting(load, operand.source, axes) for load in loads)
            instructions += depths * lines * (cost + ACCESS_COST + met)
    return Preparation(reads, made, flops, instructions, tiles)


def _cost_of_meeting(load: Load, source: Load, axes: ProductAxes) -> int:
    """Instructions to load what an operand's element `source` meets."""
    neighbours = ACCESS_BYTES // source.dtype.itemsize
    found = access(load.offset, axes.depth, neighbours, (axes.depths,))
    is_shared = _moves_along(source, axes.depth) and found is not Access.SCATTERED
    return SHARED_COST if is_shared else ACCESS_COST
