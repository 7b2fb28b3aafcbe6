"""Who reads a convolution's result as well where it has its channels last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fusegen.ir.graph import Node, Shape
from fusegen.ops.construct import call
from fusegen.ops.pointwise.functions import CLONE
from fusegen.ops.record import LibraryCall, Pointwise, Reduction, View

Users = Mapping[Node, Sequence[Node]]


def users_of(order: Sequence[Node]) -> Users:
    """Who reads each value of a topological order."""
    users: dict[Node, list[Node]] = {node: [] for node in order}
    for node in order:
        for operand in dict.fromkeys(node.operands):
            users[operand].append(node)
    return users


def reads_well(node: Node, users: Users) -> bool:
    """Whether all that is made of each of its elements is read as well with the channels last: by
    elementwise operations, by the library, and by reductions over the channels or over all pixels
    of all images. Over the pixels of an image few blocks would share the work, and elements that
    depend on their own image's channels are better made in one kernel with what these give, which
    cannot read along one dim and write along another."""
    pixels = {0, *range(2, node.type.rank)}
    for value in elements_of(node, users):
        for user in users[value]:
            if isinstance(user.operation, Reduction):
                dims = set(user.attributes.integers("dims"))
                if user.operands[0].shape != node.shape or dims not in ({1}, pixels):
                    return False
                if dims == {1} and node.shape in _shapes_made_of(user, users):
                    return False
            elif not isinstance(user.operation, (Pointwise, LibraryCall)):
                return False
    return True


def elements_of(node: Node, users: Users) -> dict[Node, None]:
    """A value, and what elementwise operations make of it in the same shape."""
    found = {node: None}
    stack = [node]
    while stack:
        for user in users[stack.pop()]:
            if (
                isinstance(user.operation, Pointwise)
                and user.shape == node.shape
                and user not in found
            ):
                found[user] = None
                stack.append(user)
    return found


def _shapes_made_of(node: Node, users: Users) -> set[Shape]:
    """The shapes of all that depends on a value."""
    found = {node: None}
    stack = [node]
    while stack:
        fresh = [user for user in users[stack.pop()] if user not in found]
        found.update(dict.fromkeys(fresh))
        stack += fresh
    return {value.shape for value in found}


def stored(root: Node) -> Node:
    """A result, which is no view of another value."""
    return call(CLONE, (root,)) if isinstance(root.operation, View) else root
