"""Operands of a channel over images of symbolic size: one division for a vector of elements."""

from __future__ import annotations

import pytest
import torch

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph
from tests.emulated import apply, cuda_text, graph, planned, run, value

CHANNELS = 6


def scaled_image(dtype: DType) -> Graph:
    x = value("x", "n", CHANNELS, "h", "w", dtype=dtype)
    scale = value("scale", CHANNELS, 1, 1, dtype=dtype)
    return graph([x, scale], apply("mul", x, scale), name="Scaled")


def normalised_image() -> Graph:
    x = value("x", "n", CHANNELS, "h", "w")
    scale = value("scale", CHANNELS, 1, 1)
    return graph([x, scale], apply("group_norm", apply("mul", x, scale), num_groups=2))


def test_a_vector_divides_once() -> None:
    assert "SteppedDivision" in cuda_text(planned(scaled_image(DType.FLOAT32)))


# Images smaller than a vector make it cross several channels.
@pytest.mark.parametrize("size", [(1, 1), (1, 2), (1, 3), (5, 7), (4, 8)])
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.FLOAT16])
def test_every_element_has_its_channel(dtype: DType, size: tuple[int, int]) -> None:
    torch_dtype = getattr(torch, dtype.value)
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(4, CHANNELS, *size, generator=generator).to(torch_dtype)
    scale = torch.arange(1, CHANNELS + 1).view(CHANNELS, 1, 1).to(torch_dtype)
    for seed in range(3):
        (found,) = run(scaled_image(dtype), [x, scale], seed=seed, check=True)
        assert torch.equal(found, x * scale)


@pytest.mark.parametrize("size", [(3, 3), (5, 7), (2, 7)])
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16])
def test_two_channels_share_a_vector(dtype: DType, size: tuple[int, int]) -> None:
    """The plane's size is known, so it is known that a vector crosses one boundary at most."""
    torch_dtype = getattr(torch, dtype.value)
    x = value("x", "n", CHANNELS, *size, dtype=dtype)
    scale, shift = (value(name, CHANNELS, 1, 1, dtype=dtype) for name in ("scale", "shift"))
    shifted = graph([x, scale, shift], apply("add", apply("mul", x, scale), shift), name="Shifted")
    assert "until_step" in cuda_text(planned(shifted))
    generator = torch.Generator().manual_seed(5)
    given = torch.randn(3, CHANNELS, *size, generator=generator).to(torch_dtype)
    channels = torch.arange(1, CHANNELS + 1).view(CHANNELS, 1, 1).to(torch_dtype)
    # Powers of two, and a sum that is exact in float32 before it is rounded once.
    scales, shifts = 2.0**channels, channels
    for seed in range(2):
        (found,) = run(shifted, [given, scales, shifts], seed=seed, check=True)
        exact = given.double() * scales.double() + shifts.double()
        assert torch.equal(found, exact.to(torch.float32).to(torch_dtype))


@pytest.mark.parametrize("size", [(1, 2), (5, 7), (4, 8)])
def test_rows_of_channels(size: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(3, CHANNELS, *size, generator=generator)
    scale = torch.rand(CHANNELS, 1, 1, generator=generator) + 0.5
    (found,) = run(normalised_image(), [x, scale], seed=1, check=True)
    exact = torch.nn.functional.group_norm(x.double() * scale.double(), 2)
    eager = torch.nn.functional.group_norm(x * scale, 2).double()
    allowed = 2 * (eager - exact).abs().max() + torch.finfo(torch.float32).eps
    assert bool(((found.double() - exact).abs() <= allowed).all())
