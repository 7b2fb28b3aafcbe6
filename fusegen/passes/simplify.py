"""Cheaper ways to say the same, bit for bit, special values included, unless a rule says else."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node, Placeholder, Role
from fusegen.ir.integers import ZERO
from fusegen.ops.build import is_zero, zeros
from fusegen.ops.construct import call
from fusegen.ops.pointwise.arithmetic import ADD, DIVIDE, MUL, POWER, SQUARE, SUB
from fusegen.ops.pointwise.casting import CAST, WIDEN
from fusegen.ops.pointwise.logic import LOGICAL_AND
from fusegen.ops.record import CONSTANT
from fusegen.passes.rewrite import rewrite


def simplify(graph: Graph) -> Graph:
    """Apply each rule wherever it fits."""

    def rule(node: Node) -> Node:
        for simpler in RULES:
            found = simpler(node)
            if found is not None and found.type == node.type:
                return found
        return node

    return rewrite(graph, rule)


def doubled(node: Node) -> Node | None:
    """x + x is x * 2: exact in binary floating point, infinities, NaN and signed zeros too."""
    if node.operation is ADD and node.operands[0] is node.operands[1]:
        return call(MUL, (node.operands[0], 2))
    return None


def neutral(node: Node) -> Node | None:
    """x * 1, x / 1 and x - 0 are x. (x + 0 is not: it makes -0 into 0.)"""
    if len(node.operands) != 2:
        return None
    value = _number(node.operands[1])
    if value is None:
        return None
    if node.operation in (MUL, DIVIDE) and value == 1:
        return node.operands[0]
    if node.operation is SUB and value == 0 and math.copysign(1, value) > 0:
        return node.operands[0]
    return None


def truth_product(node: Node) -> Node | None:
    """a * b of truth values is `a and b`."""
    if node.operation is MUL and all(x.dtype is DType.BOOL for x in node.operands):
        return call(LOGICAL_AND, node.operands)
    return None


def squared(node: Node) -> Node | None:
    """x ** 2 is one multiplication, but for truth values, of which there is none."""
    if node.operation is not POWER or node.operands[0].dtype is DType.BOOL:
        return None
    if _number(node.operands[1]) == 2:
        return call(SQUARE, (node.operands[0],))
    return None


def same_dtype(node: Node) -> Node | None:
    """A cast to the dtype that the value has already."""
    if node.operation in (CAST, WIDEN) and node.operands[0].dtype is node.dtype:
        return node.operands[0]
    return None


def known_zero(node: Node) -> Node | None:
    """A zero is known in every dtype: no kernel has to convert it, and none to store it."""
    if node.operation is not CAST or not node.dtype.is_float:
        return None
    (x,) = node.operands
    return replace(x, type=node.type) if x.dtype.is_float and _number(x) == 0 else None


def joined_biases(node: Node) -> Node | None:
    """(x + a) + b is x + (a + b) for parameters a and b of one shape, smaller than x: one sum a
    column instead of two an element. Rounding moves by at most one unit in the last place of the
    sum; NaN and infinite parameters give the same."""
    if node.operation is not ADD:
        return None
    inner, last = node.operands
    if inner.operation is not ADD or not _is_parameter(last) or inner.type != node.type:
        return None
    value, first = inner.operands
    if not _is_parameter(first) or first.type != last.type or first.type == node.type:
        return None
    return call(ADD, (value, call(ADD, (first, last))))


def empty(node: Node) -> Node | None:
    """What surely has no elements may as well be zeros: then no kernel reads for it what is not
    there, as the first element of each row."""
    if node.type.count != ZERO or isinstance(node.operation, Placeholder) or is_zero(node):
        return None
    return zeros(node.shape, node.dtype)


Rule = Callable[[Node], "Node | None"]
RULES: tuple[Rule, ...] = (
    empty,
    doubled,
    neutral,
    truth_product,
    squared,
    same_dtype,
    known_zero,
    joined_biases,
)


def _number(node: Node) -> float | None:
    if node.operation is not CONSTANT:
        return None
    value = node.attributes["value"]
    return float(value) if isinstance(value, (int, float)) else None


def _is_parameter(node: Node) -> bool:
    return isinstance(node.operation, Placeholder) and node.operation.role is Role.PARAMETER
