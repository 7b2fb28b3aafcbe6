"""Where the elements of a value come to stand in a result that is made of them one by one."""

from __future__ import annotations

from collections.abc import Collection

from fusegen.ir.graph import Node
from fusegen.ir.integers import Integer
from fusegen.ops.primitive.views import PERMUTE
from fusegen.ops.record import Pointwise, Reshape
from fusegen.passes.results import COMPUTED
from fusegen.plan.coordinates import flatten, unflatten


def place_in(result: Node, source: Node, position: Integer, inside: Collection[Node]) -> Integer:
    """The row-major position in `result` of what is made of the element of `source` at `position`.

    Both have as many elements. What leads from one to the other through elementwise operations
    `inside`, reshapes and permutations is followed; where nothing does, the position is the same.
    """
    for node in _path(result, source, inside):
        if node.operation is PERMUTE:
            (operand,) = node.operands
            at = unflatten(position, operand.shape)
            order = node.attributes.integers("dims")
            position = flatten(tuple(at[dim] for dim in order), node.shape)
    return position


def _path(result: Node, source: Node, inside: Collection[Node]) -> list[Node]:
    """What leads from `source`, which is not in it, to `result`, in order; empty if nothing does.

    All of it has as many elements as both, so that an elementwise operation changes no position.
    """
    users: dict[Node, Node] = {}
    stack = [result]
    while stack and source not in users:
        node = stack.pop()
        if node.operation is PERMUTE or isinstance(node.operation, (Pointwise, Reshape)):
            for operand in node.operands:
                is_inside = operand in inside or not isinstance(operand.operation, COMPUTED)
                if is_inside and operand.type.count == result.type.count and operand not in users:
                    users[operand] = node
                    stack.append(operand)
    path = []
    node = source
    while node in users:
        node = users[node]
        path.append(node)
    return path
