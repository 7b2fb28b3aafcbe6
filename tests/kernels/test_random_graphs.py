"""Random graphs: whatever is fused, the values are PyTorch's."""

from __future__ import annotations

import pytest
import torch
from hypothesis import Phase, given, settings

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph
from fusegen.ops.autocast import Device
from fusegen.passes.autocast import Autocast, autocast
from tests.emulated import build
from tests.random_graphs import COLUMNS, ROWS, random_graphs
from tests.reference import evaluate

GRAPHS, AT_ONCE = 96, 16
# Ten operations round up to ten times; eager, on few elements, may have been lucky in all of them.
UNIT = torch.finfo(torch.float32).eps


def drawn(count: int) -> list[Graph]:
    """The first random graphs: the same ones in every run."""
    found: list[Graph] = []

    @settings(max_examples=count, database=None, phases=[Phase.generate], derandomize=True)
    @given(random_graphs())
    def collect(graph: Graph) -> None:
        found.append(graph)

    collect()
    return found


SHAPES = ((9, COLUMNS), (9, COLUMNS), (COLUMNS,), (COLUMNS, COLUMNS))


@pytest.mark.parametrize(("device", "low"), [(Device.CPU, ()), (Device.CUDA, (1,))])
def test_random_graphs_under_autocast(device: Device, low: tuple[int, ...]) -> None:
    """Values of both dtypes in one kernel, as the lists of either device mix them."""
    context = Autocast(device, DType.BFLOAT16, low)
    graphs = drawn(AT_ONCE)
    generator = torch.Generator().manual_seed(5)
    converted = [autocast(graph, context) for graph in graphs]
    for graph, mixed, kernels in zip(graphs, converted, build(converted, check=True), strict=True):
        tensors = [torch.randn(shape, generator=generator) for shape in SHAPES]
        tensors = [x.bfloat16() if i in low else x for i, x in enumerate(tensors)]
        results = kernels(*tensors, check=True)
        eager = evaluate(mixed.roots, dict(zip(mixed.inputs, tensors, strict=True)), {ROWS: 9})
        doubles = [tensor.double() for tensor in tensors]
        exact = evaluate(graph.roots, dict(zip(graph.inputs, doubles, strict=True)), {ROWS: 9})
        for actual, peer, expected in zip(results, eager, exact, strict=True):
            assert actual.shape == peer.shape and actual.dtype is peer.dtype
            error = (actual.double() - expected).abs().max()
            unit = torch.finfo(torch.bfloat16).eps
            allowed = 2 * (peer.double() - expected).abs().max() + 4 * unit * expected.abs().max()
            assert error <= allowed, [step.why for step in kernels.plan.steps]


@pytest.mark.parametrize("first", range(0, GRAPHS, AT_ONCE))
def test_random_graphs(first: int) -> None:
    """With n planned as 1024, so that reductions over it are split, and 9 at run time."""
    graphs = drawn(GRAPHS)[first : first + AT_ONCE]
    generator = torch.Generator().manual_seed(first)
    for graph, kernels in zip(graphs, build(graphs, check=True), strict=True):
        tensors = [torch.randn(shape, generator=generator) for shape in SHAPES]
        results = kernels(*tensors, seed=first, check=True)
        eager, exact = (
            evaluate(graph.roots, dict(zip(graph.inputs, values, strict=True)), {ROWS: 9})
            for values in (tensors, [tensor.double() for tensor in tensors])
        )
        for actual, peer, expected in zip(results, eager, exact, strict=True):
            assert actual.shape == peer.shape and actual.dtype is peer.dtype
            error = (actual.double() - expected).abs().max()
            allowed = 2 * (peer.double() - expected).abs().max() + 10 * UNIT * expected.abs().max()
            assert error <= allowed, [step.why for step in kernels.plan.steps]
