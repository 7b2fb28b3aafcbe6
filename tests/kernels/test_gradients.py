"""Backward kernels in the emulator: at most twice eager's error from the exact gradients."""

from __future__ import annotations

import pytest
import torch

from benchmarks.chains import CHAINS, Chain
from fusegen.compiler.specialisation import Specialisation
from fusegen.frontend import Source
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph
from fusegen.ops.construct import call
from fusegen.ops.operands import TENSOR_KINDS
from fusegen.ops.pointwise import activations, arithmetic, functions
from fusegen.ops.record import Pointwise
from tests.emulated import apply, graph, value
from tests.kernels.test_random_graphs import drawn
from tests.ops.examples import torch_dtype
from tests.random_graphs import COLUMNS, ROWS
from tests.trained import compare, trained


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16], ids=str)
@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: chain.name)
def test_chains(chain: Chain, dtype: DType) -> None:
    torch.manual_seed(3)
    plain = chain.plain(**chain.small).to(torch_dtype(dtype))
    chosen = Specialisation.of(Source.read(str(chain.file)), None, chain.small)
    graph = chosen.graph(dtype, training=True)
    state = dict(plain.named_parameters())
    x = torch.randn(chain.small_shape).to(torch_dtype(dtype))
    tensors = [x, *(state[node.operation.path].detach() for node in graph.tensors)]  # type: ignore[attr-defined]
    sizes = {
        str(size): actual
        for size, actual in zip(graph.inputs[0].shape, x.shape, strict=True)
        if size.constant is None
    }
    compare(trained([graph])[0], tensors, sizes)


GRAPHS, AT_ONCE = 32, 8


@pytest.mark.parametrize("first", range(0, GRAPHS, AT_ONCE))
def test_random_graphs(first: int) -> None:
    """With n planned as 1024, so that reductions over it are split, and 9 at run time."""
    graphs = drawn(GRAPHS)[first : first + AT_ONCE]
    generator = torch.Generator().manual_seed(first)
    for made in trained(graphs, {ROWS: 1024}):
        shapes = ((9, COLUMNS), (9, COLUMNS), (COLUMNS,), (COLUMNS, COLUMNS))
        compare(made, [torch.randn(shape, generator=generator) for shape in shapes], {ROWS: 9})


def elementwise(record: Pointwise, dtype: DType) -> Graph:
    """A record applied to a matrix, and to a vector where it takes two tensors."""
    tensors = sum(p.kind in TENSOR_KINDS for p in record.parameters)
    x, y = value("x", 5, 7, dtype=dtype), value("y", 7, dtype=dtype)
    attributes = {"threshold": 0.5, "value": 2.0} if record.name == "threshold" else {}
    inputs = [x, y][:tensors]
    return graph(inputs, call(record, inputs, **attributes))


ELEMENTWISE = [
    record
    for record in (*arithmetic.RECORDS, *functions.RECORDS, *activations.RECORDS)
    if record is not arithmetic.FLOOR_DIVIDE  # which PyTorch does not differentiate
]


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16], ids=str)
def test_elementwise_operations(dtype: DType) -> None:
    """Over positive numbers, where all are defined, and for activations on both sides of 0."""
    generator = torch.Generator().manual_seed(2)
    graphs = [elementwise(record, dtype) for record in ELEMENTWISE]
    for record, made in zip(ELEMENTWISE, trained(graphs), strict=True):
        below = 1.0 if record in activations.RECORDS else -0.25
        tensors = [
            (2 * torch.rand(shape, generator=generator) - below).to(torch_dtype(dtype))
            for shape in ((5, 7), (7,))[: len(made.arguments)]
        ]
        compare(made, tensors, {})


def test_an_input_that_is_returned_and_one_output_twice() -> None:
    x, y = value("x", 3, 4), value("y", 3, 4)
    product = apply("mul", x, y)
    (made,) = trained([graph([x, y], x, product, product)])
    compare(made, [torch.randn(3, 4), torch.randn(3, 4)], {})
