"""Elementwise kernels whose operands lie across, turned by tiles in shared memory."""

from __future__ import annotations

import pytest
import torch

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph
from fusegen.plan.kernels.elementwise import ElementwisePlan
from tests.emulated import Kernels, apply, build, graph, value
from tests.ops.examples import torch_dtype

HINTS = {"n": 8, "h": 32, "w": 32}
CHANNELS = 72  # a tile, and an eighth of the next one
DTYPES = [DType.FLOAT32, DType.BFLOAT16, DType.FLOAT64]
# Pixels by which accesses of all widths go, over and under a tile.
SIZES = [(8, 8), (2, 6), (9, 15), (1, 1), (13, 10)]


def with_channels_last(dtype: DType) -> Graph:
    """An image with its channels last, a bias of a channel and a residual with them second."""
    y = value("y", "n", "h", "w", CHANNELS, dtype=dtype)
    bias = value("bias", CHANNELS, 1, 1, dtype=dtype)
    residual = value("residual", "n", CHANNELS, "h", "w", dtype=dtype)
    second = apply("permute", y, dims=(0, 3, 1, 2))
    made = apply("add", apply("relu", apply("add", second, bias)), residual)
    return graph([y, bias, residual], made, apply("mul", second, 2.0))


def to_channels_last(dtype: DType) -> Graph:
    x = value("x", "n", CHANNELS, "h", "w", dtype=dtype)
    return graph([x], apply("neg", apply("permute", x, dims=(0, 2, 3, 1))))


@pytest.fixture(scope="module")
def kernels() -> list[Kernels]:
    graphs = [make(dtype) for make in (with_channels_last, to_channels_last) for dtype in DTYPES]
    made = build(graphs, check=True, hints=HINTS)
    for each in made:
        (step,) = each.plan.steps
        assert isinstance(step, ElementwisePlan) and step.tiles is not None
    return made


def normal(*shape: int, dtype: DType, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(torch_dtype(dtype))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("number", range(len(DTYPES)))
def test_elements_meet_their_neighbours(
    kernels: list[Kernels], number: int, size: tuple[int, int]
) -> None:
    dtype = DTYPES[number]
    y = normal(2, *size, CHANNELS, dtype=dtype, seed=1)
    bias = normal(CHANNELS, 1, 1, dtype=dtype, seed=2)
    residual = normal(2, CHANNELS, *size, dtype=dtype, seed=3)
    found, doubled = kernels[number](y, bias, residual, seed=number, check=True)
    second = y.permute(0, 3, 1, 2)
    compute = torch.float64 if dtype is DType.FLOAT64 else torch.float32
    # Two additions in the compute type, and one rounding: the same in PyTorch.
    exact = torch.relu(second.to(compute) + bias.to(compute)) + residual.to(compute)
    assert torch.equal(found, exact.to(found.dtype))
    assert torch.equal(doubled, second * 2)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("number", range(len(DTYPES)))
def test_the_other_way_round(kernels: list[Kernels], number: int, size: tuple[int, int]) -> None:
    x = normal(3, CHANNELS, *size, dtype=DTYPES[number], seed=4)
    (found,) = kernels[len(DTYPES) + number](x, check=True)
    assert torch.equal(found, -x.permute(0, 2, 3, 1))


def test_tensors_that_are_not_packed(kernels: list[Kernels]) -> None:
    whole = normal(4, CHANNELS, 8, 8, dtype=DType.FLOAT32, seed=5)
    last = whole.contiguous(memory_format=torch.channels_last)
    for x in (whole[::2], whole[:, :, :, ::2], last):
        (found,) = kernels[len(DTYPES)](x, check=True)
        assert torch.equal(found, -x.permute(0, 2, 3, 1))


def test_what_only_one_side_reads_is_not_brought() -> None:
    """Of parts that are joined each is read where it is: there are no tiles for them."""
    x, y = value("x", "n", "h", "w", CHANNELS), value("y", "n", CHANNELS, "h", "w")
    joined = apply("cat", apply("permute", x, dims=(0, 3, 1, 2)), y, dim=1)
    (made,) = build([graph([x, y], apply("neg", joined))], check=True, hints=HINTS)
    (step,) = made.plan.steps
    assert isinstance(step, ElementwisePlan) and step.tiles is None
    tensors = [normal(2, 4, 5, CHANNELS, dtype=DType.FLOAT32, seed=6)]
    tensors.append(normal(2, CHANNELS, 4, 5, dtype=DType.FLOAT32, seed=7))
    (found,) = made(*tensors, check=True)
    assert torch.equal(found, -torch.cat([tensors[0].permute(0, 3, 1, 2), tensors[1]], 1))
