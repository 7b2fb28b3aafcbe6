"""Sums that a row kernel leaves in parts for a second kernel to add: over rows, or over pieces of
them."""

from __future__ import annotations

from collections.abc import Mapping

from fusegen.ir.graph import Node
from fusegen.ir.integers import Integer
from fusegen.ops.record import Monoid, Reduction
from fusegen.plan.buffers import Buffer, workspace
from fusegen.plan.coordinates import flatten, unflatten
from fusegen.plan.evaluate import Evaluator, accumulator_dtype
from fusegen.plan.expressions import Expression, PartialStates
from fusegen.plan.group import Context, Group


def summand(node: Node, rows: Group, evaluator: Evaluator) -> Expression:
    """What a sum adds up, at the row and column of the kernel for `rows`."""
    first = rows.having(Reduction)[0]
    at = flatten(evaluator.domain_coordinates(first), first.operands[0].shape)
    (operand,) = node.operands
    return evaluator.read(operand, unflatten(at, operand.shape))


def workspaces(
    values: Mapping[Node, Expression], context: Context, size: Integer, ending: str
) -> dict[Node, Buffer]:
    """A workspace of `size` sums for each value; equal values share one. Its name is the sum's own,
    with this ending."""
    taken = {buffer.name for buffer in context.buffers.values()}
    made: dict[Expression, Buffer] = {}
    for node, value in values.items():
        name = f"{context.buffers[node].name}{ending}"  # as distinct as the sums' own names
        buffer = workspace(name, (size,), accumulator_dtype(node.dtype), taken)
        made.setdefault(value, buffer)
    return {node: made[value] for node, value in values.items()}


def parts_of(sums: Mapping[Node, Buffer], position: Integer) -> dict[Node, PartialStates]:
    """The part of each sum that stands at `position` of its workspace."""
    return {
        node: PartialStates(
            node.dtype, "sums", buffer, position, Monoid.SUM, accumulator_dtype(node.dtype)
        )
        for node, buffer in sums.items()
    }
