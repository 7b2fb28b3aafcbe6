"""Backward kernels in the emulator: at most twice eager's error from the exact gradients."""

from __future__ import annotations

import pytest
import torch

from benchmarks.chains import CHAINS, Chain
from fusegen.compiler.specialisation import Specialisation
from fusegen.frontend import Source
from fusegen.ir.dtypes import DType
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
