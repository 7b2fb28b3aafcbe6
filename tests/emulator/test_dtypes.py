"""Conversions in dtypes.cuh give PyTorch's values for every pair of element types."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fusegen.emulator import EmulatorRuntime
from tests.emulator.kernel_library import LoadKernel

# In the order of TYPES in kernels/conversions.cu.
DTYPES = [
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint8,
    torch.bool,
]
SIXTEEN_BIT_FLOATS = [torch.float16, torch.bfloat16]


def convert(load_kernel: LoadKernel, x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    y = torch.zeros(x.shape, dtype=dtype)
    kernel = load_kernel("conversions")
    x_bytes, y_bytes = x.view(torch.uint8).numpy(), y.view(torch.uint8).numpy()
    assert kernel(DTYPES.index(dtype), DTYPES.index(x.dtype), x_bytes, y_bytes, x.numel()) is None
    return y


def assert_same(got: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal values, signs of zero included; any NaN equals any other."""
    assert got.dtype == expected.dtype
    got_array, expected_array = got.double().numpy(), expected.double().numpy()
    np.testing.assert_array_equal(got_array, expected_array)
    known = ~np.isnan(expected_array)
    np.testing.assert_array_equal(np.signbit(got_array[known]), np.signbit(expected_array[known]))


def all_patterns(dtype: torch.dtype) -> torch.Tensor:
    return torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)


@pytest.mark.parametrize("dtype", SIXTEEN_BIT_FLOATS)
def test_every_16_bit_float_widens_and_returns(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, dtype: torch.dtype
) -> None:
    x = all_patterns(dtype)
    for wide in (torch.float32, torch.float64):
        widened = convert(load_kernel, x, wide)
        assert_same(widened, x.to(wide))
        assert_same(convert(load_kernel, widened, dtype), x)


def test_every_float16_agrees_with_numpy(runtime: EmulatorRuntime, load_kernel: LoadKernel) -> None:
    x = all_patterns(torch.float16)
    expected = torch.from_numpy(x.numpy().astype(np.float32))
    assert_same(convert(load_kernel, x, torch.float32), expected)


def near_ties(dtype: torch.dtype) -> torch.Tensor:
    """Every finite value of `dtype`, the midpoints between and past them, and their neighbours."""
    values = all_patterns(dtype).double()
    values = torch.sort(values[values.isfinite()]).values
    past_the_end = values[-1] + (values[-1] - values[-2]) / 2  # where infinity begins
    midpoints = (values[:-1] + values[1:]) / 2
    exact = torch.cat([values, midpoints, past_the_end[None], -past_the_end[None]]).float()
    up, down = torch.tensor(torch.inf), torch.tensor(-torch.inf)
    return torch.cat([exact, torch.nextafter(exact, up), torch.nextafter(exact, down)])


@pytest.mark.parametrize("dtype", SIXTEEN_BIT_FLOATS)
def test_float32_rounds_to_nearest_even(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, dtype: torch.dtype
) -> None:
    x = near_ties(dtype)
    assert_same(convert(load_kernel, x, dtype), x.to(dtype))


@pytest.mark.parametrize("dtype", SIXTEEN_BIT_FLOATS)
def test_random_float32_bit_patterns(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, dtype: torch.dtype
) -> None:
    patterns = np.random.default_rng(0).integers(0, 2**32, size=300_000, dtype=np.uint32)
    x = torch.from_numpy(patterns.view(np.float32))
    assert_same(convert(load_kernel, x, dtype), x.to(dtype))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (65519.99, 65504.0),
        (65520.0, np.inf),
        (-65520.0, -np.inf),
        (np.inf, np.inf),
        (2.0**-24, 2.0**-24),
        (2.0**-25, 0.0),
        (1.5 * 2.0**-25, 2.0**-24),
        (3 * 2.0**-25, 2.0**-23),
        (2.0**-14 * (1 - 2.0**-11), 2.0**-14),
        (1 + 2.0**-11, 1.0),
        (1 + 3 * 2.0**-11, 1 + 2.0**-9),
    ],
)
def test_float16_at_its_edges(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, value: float, expected: float
) -> None:
    x = torch.tensor([value], dtype=torch.float32)
    assert convert(load_kernel, x, torch.float16).item() == expected


def values_of(dtype: torch.dtype, into: torch.dtype) -> torch.Tensor:
    """Random values and edge cases of `dtype` whose conversion to `into` is defined."""
    random = np.random.default_rng(DTYPES.index(dtype))
    if dtype.is_floating_point:
        edges = [0.0, -0.0, 0.5, -0.5, 0.999, -0.999, 1.0, 2.5, 127.9]
        if into.is_floating_point or into == torch.bool:
            edges += [np.nan, np.inf, -np.inf, 1e-30, -1e30, 6e-8]
        reach = 255.0 if into == torch.uint8 else 127.0
        low = 0.0 if into == torch.uint8 else -reach
        return torch.tensor([*edges, *random.uniform(low, reach, 500)], dtype=dtype)
    if dtype == torch.bool:
        return torch.tensor([False, True])
    limits = torch.iinfo(dtype)
    edges = [limits.min, limits.max, 0, 1]
    return torch.tensor(
        [*edges, *random.integers(limits.min, limits.max, 500, endpoint=True).tolist()],
        dtype=dtype,
    )


@pytest.mark.parametrize("into", DTYPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_pair_agrees_with_pytorch(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, dtype: torch.dtype, into: torch.dtype
) -> None:
    x = values_of(dtype, into)
    assert_same(convert(load_kernel, x, into), x.to(into))


def test_negative_floats_to_uint8_wrap(runtime: EmulatorRuntime, load_kernel: LoadKernel) -> None:
    x = torch.tensor([-1.0, -1.9, -200.5, 256.0, 300.0])
    got = convert(load_kernel, x, torch.uint8)
    assert got.tolist() == [255, 255, 56, 0, 44]
