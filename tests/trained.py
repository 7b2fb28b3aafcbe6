"""Forward and backward kernels of graphs, in the emulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node
from fusegen.passes import pipeline
from fusegen.passes.differentiation import Differentiated, differentiate
from fusegen.plan.attention_limits import stores_no_scores
from fusegen.plan.cost import SizeHints
from fusegen.plan.kernels.module import ModulePlan
from fusegen.plan.module import plan_module
from tests.emulated import Kernels, graph, link
from tests.gradients import autograd_gradients, backward_arguments
from tests.ops.examples import torch_dtype


@dataclass(frozen=True)
class Trained:
    """A graph's forward and backward kernels, and how their tensors belong together."""

    graph: Graph
    found: Differentiated
    forward: Kernels
    backward: Kernels

    @property
    def arguments(self) -> tuple[Node, ...]:
        """What the forward takes."""
        return (*self.graph.inputs, *self.graph.tensors)

    def gradients(
        self, tensors: Sequence[torch.Tensor], upstream: Sequence[torch.Tensor], seed: int = 0
    ) -> dict[Node, torch.Tensor]:
        """The gradients of the arguments, all kernels run with the checker on."""
        results = self.forward(*tensors, seed=seed, check=True)
        taken = backward_arguments(self.found, tensors, results, upstream)
        gradients = self.backward(*taken, seed=seed, check=True)
        return {
            self.arguments[target]: gradient
            for target, gradient in zip(self.found.targets, gradients, strict=True)
        }


def trained(graphs: Sequence[Graph], hints: Mapping[str, int] | None = None) -> list[Trained]:
    """The compiled kernels of several graphs and their backwards, from one `.cu` file, planned for
    the sizes in `hints`."""
    differentiated = [differentiate(graph, stores_no_scores) for graph in graphs]
    hinted = SizeHints(hints) if hints else None
    plans: list[ModulePlan] = []
    for found in differentiated:
        assert found is not None
        plans += [
            plan_module(pipeline.run(side), DType.FLOAT32, hinted)
            for side in (found.forward, found.backward)
        ]
    kernels = link(plans, check=True)
    return [
        Trained(graph, found, *pair)
        for graph, found, pair in zip(
            graphs, differentiated, zip(kernels[::2], kernels[1::2], strict=True), strict=True
        )
        if found is not None
    ]


def compare(trained: Trained, tensors: Sequence[torch.Tensor], sizes: Mapping[str, int]) -> None:
    """Assert that each gradient is as close to the exact one as twice eager's, in the norm."""
    generator = torch.Generator().manual_seed(7)
    values = dict(zip(trained.arguments, tensors, strict=True))
    upstream = []
    for output in trained.graph.outputs:
        shape = [size.evaluate(sizes) for size in output.node.shape]
        drawn = torch.randn(shape, generator=generator).to(torch_dtype(output.node.dtype))
        upstream.append(drawn)
    found = trained.gradients(tensors, upstream)
    eager = autograd_gradients(trained.graph, values, upstream, sizes)
    exact = autograd_gradients(
        trained.graph,
        {node: _exact(tensor) for node, tensor in values.items()},
        [_exact(gradient) for gradient in upstream],
        sizes,
    )
    assert set(found) == set(eager)
    for node, gradient in found.items():
        assert gradient.dtype is eager[node].dtype and gradient.shape == eager[node].shape
        unit = torch.finfo(gradient.dtype).eps
        truth = exact[node].double()
        error = (gradient.double() - truth).norm()
        allowed = 2 * (eager[node].double() - truth).norm() + unit * truth.norm()
        assert error <= allowed, f"{node.name}: {error / truth.norm()}, {allowed / truth.norm()}"


def _exact(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.dtype.is_floating_point else tensor


def gradients_of(
    root: Node, inputs: Sequence[Node], *tensors: torch.Tensor, upstream: torch.Tensor | None = None
) -> list[torch.Tensor]:
    """The gradients of all inputs of one result, by the kernels; of its sum without `upstream`."""
    (made,) = trained([graph(inputs, root)])
    if upstream is None:
        sizes = made.forward.sizes(tensors)
        shape = [size.evaluate(sizes) for size in root.shape]
        upstream = torch.ones(shape, dtype=torch_dtype(root.dtype))
    found = made.gradients(tensors, [upstream])
    return [found[node] for node in inputs]
