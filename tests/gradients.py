"""Gradients of graphs, in PyTorch: those of the backward graph, and autograd's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from fusegen.ir.graph import Graph, Node, Placeholder, Role
from fusegen.passes.differentiation import Differentiated, Origin
from tests.reference import evaluate

Values = Mapping[Node, torch.Tensor]


def backward_arguments(
    found: Differentiated,
    arguments: Sequence[torch.Tensor],
    results: Sequence[torch.Tensor],
    upstream: Sequence[torch.Tensor],
) -> list[torch.Tensor]:
    """What the backward takes, in its order: from the forward's arguments and results (all its
    roots) and the gradients of its outputs."""
    saved = results[len(results) - len(found.forward.saved) :]
    tables: dict[Origin, Sequence[torch.Tensor]] = {
        Origin.OUTPUT_GRADIENT: upstream,
        Origin.ARGUMENT: arguments,
        Origin.OUTPUT: results,
        Origin.SAVED: saved,
    }
    return [tables[source.origin][source.index] for source in found.sources]


def graph_gradients(
    found: Differentiated,
    values: Values,
    upstream: Sequence[torch.Tensor],
    sizes: Mapping[str, int] | None = None,
) -> dict[Node, torch.Tensor]:
    """The gradients that the backward graph gives, run operation by operation in PyTorch."""
    arguments = (*found.forward.inputs, *found.forward.tensors)
    given = [values[argument] for argument in arguments]
    results = evaluate(found.forward.roots, dict(zip(arguments, given, strict=True)), sizes)
    taken = backward_arguments(found, given, results, upstream)
    for node, tensor in zip(found.backward.inputs, taken, strict=True):
        expected = [size.evaluate(sizes or {}) for size in node.shape]
        assert list(tensor.shape) == expected, f"{node.name} is {tensor.shape}"
    inputs = dict(zip(found.backward.inputs, taken, strict=True))
    gradients = evaluate(found.backward.roots, inputs, sizes)
    return {
        arguments[target]: gradient
        for target, gradient in zip(found.targets, gradients, strict=True)
    }


def autograd_gradients(
    graph: Graph,
    values: Values,
    upstream: Sequence[torch.Tensor],
    sizes: Mapping[str, int] | None = None,
) -> dict[Node, torch.Tensor]:
    """PyTorch's gradients of the floating-point arguments; None has no entry."""
    leaves = {
        node: tensor.detach().clone().requires_grad_(_is_trained(node))
        for node, tensor in values.items()
    }
    results = evaluate([output.node for output in graph.outputs], leaves, sizes)
    pairs = [(r, g) for r, g in zip(results, upstream, strict=True) if r.requires_grad]
    wanted = [node for node, leaf in leaves.items() if leaf.requires_grad]
    if not pairs:
        return {}
    found = torch.autograd.grad(
        [result for result, _ in pairs],
        [leaves[node] for node in wanted],
        [gradient for _, gradient in pairs],
        allow_unused=True,
    )
    return {n: gradient for n, gradient in zip(wanted, found, strict=True) if gradient is not None}


def _is_trained(node: Node) -> bool:
    assert isinstance(node.operation, Placeholder)
    return node.dtype.is_float and node.operation.role is not Role.BUFFER
