"""The quicker form of softplus: compiled for the CPU, against float64."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.ops.device_library import Library, every

# Of the device's exponential and logarithm (PTX ISA, ex2.approx and lg2.approx), which here are
# exact: the logarithm's is 2^-22, of 0.087 at least.
EXPONENTIAL, LOGARITHM = 2.0**-22, 2.0**-22 / 0.087


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("beta", "threshold"), [(1.0, 20.0), (2.5, 4.0), (0.125, 20.0)])
def test_every_number_of_16_bits(
    tmp_path: Path, beta: float, threshold: float, dtype: torch.dtype
) -> None:
    library = Library(tmp_path, ["near_softplus"], (beta, threshold))
    x = every(dtype)
    made = library("near_softplus", x).double()
    scaled = x.double() * beta
    # log(1 + e) by log1p does not cancel. Subnormal numbers are rounded: the exponential, and then
    # its product with the series, before they are divided.
    exact = torch.where(scaled > threshold, x.double(), torch.log1p(torch.exp(scaled)) / beta)
    relative = 2.0**-16 + (scaled.abs().clamp(max=110) - 30).clamp(min=0) * 2.0**-22
    allowed = exact.abs() * (relative - EXPONENTIAL - LOGARITHM) + 2.0**-148 / beta
    finite = x.isfinite()
    assert bool(((made - exact).abs() <= allowed)[finite].all())
    assert torch.equal(made.isnan(), x.isnan())
    assert made[x == float("inf")].item() == float("inf") and made[x == -float("inf")].item() == 0
