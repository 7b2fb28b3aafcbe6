"""The truth about gradients: PyTorch's autograd through the model in float64.

It is the model as the user wrote it: what its operations are composed of has other gradients at
ties and infinities. Where no gradient flows into a value at all, as behind `floor`, or behind what
has no elements, PyTorch goes on with zeros, and 0 times an infinite slope is NaN; a generated
backward leaves out what nothing flows into, so that there the gradient is 0, as a sum of no terms.
Either is right, and the second is what the truth is made of.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fusegen.ir.graph import Attributes, Graph, Node, Output, Placeholder, Role, topological
from fusegen.ops import build
from fusegen.ops.construct import is_number
from fusegen.passes.differentiation.reverse import NotDifferentiable, reverse
from fusegen.testing.interpreter import NOTHING, Detached, Sizes, outputs
from fusegen.testing.refusals import refusals_of_pytorch


@dataclass(frozen=True)
class Truth:
    """A gradient in float64, and what PyTorch has in its place: NaN where that comes of multiplying
    zeros on the way that nothing flows."""

    value: Tensor
    in_pytorch: Tensor


def is_trained(node: Node) -> bool:
    """Whether an argument of a model's operator can have a gradient."""
    assert isinstance(node.operation, Placeholder)
    return node.dtype.is_float and node.operation.role is not Role.BUFFER


def autograd(
    results: Sequence[Tensor], leaves: Sequence[Tensor], upstream: Sequence[Tensor | None]
) -> tuple[Tensor | None, ...]:
    """The gradient of each of the `leaves` that requires one and that something is made of, given
    those of the results: None for a result that was not used."""
    pairs = [
        (result, gradient)
        for result, gradient in zip(results, upstream, strict=True)
        if gradient is not None and result.requires_grad
    ]
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    if not pairs or not wanted:
        return (None,) * len(leaves)
    for result, gradient in pairs:  # PyTorch would refuse, as it does what it cannot differentiate
        assert (result.shape, result.dtype) == (gradient.shape, gradient.dtype)
    made = iter(
        torch.autograd.grad(
            [result for result, _ in pairs],
            wanted,
            [gradient for _, gradient in pairs],
            allow_unused=True,
        )
    )
    return tuple(next(made) if leaf.requires_grad else None for leaf in leaves)


def true_gradients(
    model: Graph,
    targets: Sequence[int],
    tensors: Sequence[Tensor],
    upstream: Sequence[Tensor | None],
    sizes: Sizes,
) -> Mapping[int, Truth]:
    """The gradient of each of the arguments at these positions; raises Unsuitable where PyTorch has
    no derivative."""
    in_pytorch = _gradients(model, targets, tensors, upstream, sizes, NOTHING)
    value = in_pytorch
    if any(gradient.isnan().any() for gradient in in_pytorch):
        apart = _that_nothing_flows_into(model, sizes)
        value = _gradients(model, targets, tensors, upstream, sizes, apart) if apart else value
    return {
        target: Truth(torch.where(theirs.isnan(), own, theirs), theirs)
        for target, own, theirs in zip(targets, value, in_pytorch, strict=True)
    }


def _gradients(
    model: Graph,
    targets: Sequence[int],
    tensors: Sequence[Tensor],
    upstream: Sequence[Tensor | None],
    sizes: Sizes,
    detached: Detached,
) -> list[Tensor]:
    leaves = [
        tensor.detach().double().clone().requires_grad_() if is_trained(node) else tensor
        for node, tensor in zip(model.placeholders, tensors, strict=True)
    ]
    given = [None if gradient is None else gradient.double() for gradient in upstream]
    with torch.enable_grad():
        results = outputs(model, leaves, sizes, detached)
        with refusals_of_pytorch():
            made = autograd(results, leaves, given)
    return [
        torch.zeros_like(leaves[target]) if (own := made[target]) is None else own.detach()
        for target in targets
    ]


def _that_nothing_flows_into(model: Graph, sizes: Sizes) -> Detached:
    """The operands, by their positions, that have no gradient from a node at these sizes."""
    nodes = topological(tuple(output.node for output in model.outputs))
    found = {node: _without_gradient(node, sizes) for node in nodes if node.operands}
    return {node: positions for node, positions in found.items() if positions}


def _without_gradient(node: Node, sizes: Sizes) -> Collection[int]:
    if not node.type.count.evaluate(sizes):
        return range(len(node.operands))
    given = [
        operand if is_number(operand) else _placeholder(operand, f"operand_{position}")
        for position, operand in enumerate(node.operands)
    ]
    taken = tuple(operand for operand in given if not is_number(operand))
    alone = Output("output", replace(node, operands=tuple(given)))
    try:
        gradients = reverse(Graph("alone", taken, (), (alone,))).gradients
    except NotDifferentiable:
        return ()
    return [i for i, x in enumerate(given) if x in gradients and build.is_zero(gradients[x])]


def _placeholder(node: Node, name: str) -> Node:
    return Node(Placeholder("input", Role.INPUT), (), Attributes(), node.type, name)
