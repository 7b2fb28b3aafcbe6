"""What a kernel stores in a narrower type for others is rounded for all who use it.

A kernel holds a value of a 16-bit type in float32. Where it stores the value and goes on with it,
the kernels that read it find other numbers than the one that made it: a mean of the ones does not
belong to the others, and where deviations are small against it, what is left is the rounding. So
where what is made of the ones meets what is made of the others, every use of the value sees it as
it is stored: in its own kernel, and where a copy of it is computed again.

What goes separate ways stays exact, as a bias's gradient beside a product that reads what it sums.
What only the caller or the backward reads stays exact in the kernel: rounding the product that a
forward saves before the statistics of its tile makes ptxas serialise its warpgroup products (C7514,
nvcc 13.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fusegen.ir.graph import Graph, Node, topological
from fusegen.ops.pointwise.casting import AS_STORED, CAST
from fusegen.passes.common_values import first_equal
from fusegen.plan.group import Context
from fusegen.plan.partition import Dependencies, Part
from fusegen.plan.strategies import judge

# What these give has been rounded to its type.
ROUNDING = (CAST, AS_STORED)


def as_stored(graph: Graph, parts: tuple[Part, ...], context: Context) -> tuple[Part, ...]:
    """A partition's parts, planned again so that what one stores for another is used as stored
    wherever both uses meet."""
    users = Dependencies.of(graph).users
    first = first_equal(topological(graph.roots))
    groups = [frozenset(part.group.nodes) for part in parts]
    inside: dict[Node, set[Node]] = {}
    outside: dict[Node, set[Node]] = {}
    for node in dict.fromkeys(node for part in parts for node in part.group.nodes):
        if _loses_digits(node):
            for group in groups:  # a user may be in several
                found = inside if node in group else outside
                found.setdefault(first[node], set()).update(users[node] & group)
    classes = {
        one
        for one, others in outside.items()
        if others and _made_from(inside[one], users) & _made_from(others, users)
    }
    if not classes:
        return parts
    seen = replace(context, rounded=frozenset(n for n, one in first.items() if one in classes))
    return tuple(
        part if seen.rounded.isdisjoint(part.group.nodes) else _planned_again(part, seen)
        for part in parts
    )


def _made_from(start: set[Node], users: Mapping[Node, frozenset[Node]]) -> set[Node]:
    """The operations of `start`, and all that depend on them."""
    found: set[Node] = set()
    stack = [*start]
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack.extend(users[node])
    return found


def _loses_digits(value: Node) -> bool:
    """Whether storing the value rounds it."""
    return value.dtype.compute is not value.dtype and value.operation not in ROUNDING


def _planned_again(part: Part, context: Context) -> Part:
    verdict = judge(part.group, context)
    assert verdict.steps, "rounding a value takes no more memory than the value"
    return replace(part, verdict=verdict)
