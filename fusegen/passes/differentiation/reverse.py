"""Reverse-mode differentiation: each operation's gradient, from the outputs to the arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fusegen.ir.graph import Attributes, Graph, Node, Placeholder, Role, TensorType, topological
from fusegen.ops import build
from fusegen.ops.record import Record
from fusegen.passes.decompose import decompose


class NotDifferentiable(Exception):
    """An operation through which a gradient would flow has none; the text names it."""


@dataclass(frozen=True)
class Reversed:
    """Gradients as nodes over the graph's own.

    `graph` is the one differentiated, in which composites without a gradient of their own are
    written out. `upstream` are placeholders for the gradients of its outputs, by their positions,
    and `gradients` those of its inputs and parameters, in their order.
    """

    graph: Graph
    upstream: Mapping[int, Node]
    gradients: Mapping[Node, Node]


def reverse(graph: Graph) -> Reversed:
    """The gradients of everything that can have one; raises `NotDifferentiable`."""
    graph = decompose(graph, keeps=lambda composite: composite.gradient is not None)
    roots = tuple(output.node for output in graph.outputs)
    order = topological(roots)
    active = _active(order)
    collected: dict[Node, Node] = {}
    upstream: dict[int, Node] = {}
    for position, output in enumerate(graph.outputs):
        if output.node in active:
            name = f"gradient_of_{output.name}"
            operation = Placeholder("gradient", Role.INPUT, name)
            upstream[position] = Node(operation, (), Attributes(), output.node.type, name)
            _collect(collected, output.node, upstream[position])
    known = set(order)
    for node in reversed(order):
        if node in collected and node.operands:
            _pass_on(node, collected, active, known)
    arguments = graph.placeholders
    gradients = {x: collected[x] for x in arguments if x in collected}
    return Reversed(graph, upstream, gradients)


def _active(order: tuple[Node, ...]) -> set[Node]:
    """The values that have a gradient: floating-point ones that depend on an input or parameter
    which has one."""
    active: set[Node] = set()
    for node in order:
        if not node.dtype.is_float:
            continue
        if isinstance(node.operation, Placeholder):
            if node.operation.role is not Role.BUFFER:
                active.add(node)
        elif any(operand in active for operand in node.operands):
            active.add(node)
    return active


def _pass_on(node: Node, collected: dict[Node, Node], active: set[Node], known: set[Node]) -> None:
    """Add to the gradients of a node's operands what it gives them."""
    record, own = node.operation, collected[node]
    assert isinstance(record, Record)
    if build.is_zero(own):
        parts: tuple[Node | None, ...] = (own,) * len(node.operands)
    elif record.gradient is None:
        raise NotDifferentiable(node.written_as)
    else:
        parts = record.gradient(node, own)
    fitted = {
        position: _fitted(part, operand.type)
        for position, (operand, part) in enumerate(zip(node.operands, parts, strict=True))
        if operand in active and part is not None
    }
    labelled = _labelled(node, tuple(fitted.values()), known)
    for position, part in zip(fitted, labelled, strict=True):
        _collect(collected, node.operands[position], part)


def _fitted(gradient: Node, type: TensorType) -> Node:
    if build.is_zero(gradient):
        return build.zeros(type.shape, type.dtype)
    return build.sum_to(gradient, type)


def _collect(collected: dict[Node, Node], node: Node, gradient: Node) -> None:
    """Add to a gradient; one that is 0 everywhere adds nothing."""
    before = collected.get(node)
    if before is None or build.is_zero(before):
        collected[node] = gradient
    elif not build.is_zero(gradient):
        collected[node] = build.add(before, gradient)


def _labelled(node: Node, parts: tuple[Node, ...], known: set[Node]) -> tuple[Node, ...]:
    """The parts of an operation's gradient, all nodes new in them marked as its, for the reader of
    plans and kernels."""
    made: dict[Node, Node] = {}
    for part in topological(parts):
        if part in known or not isinstance(part.operation, Record):
            made[part] = part
            continue
        made[part] = replace(
            part,
            operands=tuple(made[operand] for operand in part.operands),
            span=part.span or node.span,
            origin=part.origin or f"{node.written_as} gradient",
        )
    known.update(made.values())
    return tuple(made[part] for part in parts)
