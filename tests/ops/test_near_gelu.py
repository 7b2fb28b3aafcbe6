"""The quicker forms of gelu, and the exact one's slope: compiled for the CPU, against float64."""

from __future__ import annotations

import math

import pytest
import torch

from tests.ops.device_library import Library, every

INF, NAN = float("inf"), float("nan")
FORMS = ("none", "tanh")
# Of the device's exponential (PTX ISA, ex2.approx), which here is exact.
EXPONENTIAL = 2.0**-22


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    names = ["gelu_slope", *(f"{kind}gelu_{form}" for kind in ("", "near_") for form in FORMS)]
    return Library(tmp_path_factory.mktemp("gelu"), names)


def below(x: torch.Tensor) -> torch.Tensor:
    """The normal distribution, in float64."""
    return 0.5 * torch.erfc(-math.sqrt(0.5) * x)


def twice_inner(x: torch.Tensor) -> torch.Tensor:
    """What the tanh form's sigmoid is taken of."""
    return 2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)


def exact(form: str, x: torch.Tensor) -> torch.Tensor:
    """In float64, by formulas that do not cancel."""
    return x * (below(x) if form == "none" else torch.sigmoid(twice_inner(x)))


def allowed(form: str, x: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """The error that the header states, less that of the exponential. Subnormal numbers, which the
    product with x makes greater, are rounded."""
    relative = torch.full_like(x, 2.0**-16)
    if form == "tanh":
        relative = (4 + twice_inner(x).abs().clamp(max=128)) * 2.0**-22
    return expected.abs() * (relative - EXPONENTIAL) + 2.0**-149 * (1 + x.abs().clamp(max=16))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("form", FORMS)
def test_every_number_of_16_bits(library: Library, form: str, dtype: torch.dtype) -> None:
    x = every(dtype)
    x = x[x.isfinite()]
    expected = exact(form, x.double())
    error = (library(f"near_gelu_{form}", x).double() - expected).abs()
    assert (error <= allowed(form, x.double(), expected)).all()


@pytest.mark.parametrize("form", FORMS)
def test_numbers_between_those_of_16_bits(library: Library, form: str) -> None:
    x = torch.cat([torch.linspace(-16, 16, 1_000_001), torch.linspace(-1, 1, 200_001)])
    expected = exact(form, x.double())
    error = (library(f"near_gelu_{form}", x).double() - expected).abs()
    assert (error <= allowed(form, x.double(), expected)).all()


@pytest.mark.parametrize("form", FORMS)
def test_special_values_are_those_of_the_full_functions(library: Library, form: str) -> None:
    x = torch.tensor([INF, -INF, NAN, 0.0, -0.0, 1e12, -1e12, 1e-40, -1e-40, 40.0, -40.0, -14.45])
    made, full = library(f"near_gelu_{form}", x), library(f"gelu_{form}", x)
    torch.testing.assert_close(made, full, rtol=2.0**-16, atol=1e-44, equal_nan=True)
    assert torch.equal(made.signbit()[~made.isnan()], full.signbit()[~made.isnan()])


@pytest.mark.parametrize("form", FORMS)
def test_the_greatest_numbers(library: Library, form: str) -> None:
    made = library(f"near_gelu_{form}", torch.tensor([3e38, -3e38, 1e20, -1e20]))
    assert torch.equal(made, torch.tensor([3e38, 0.0, 1e20, 0.0]))


def slope(x: torch.Tensor) -> torch.Tensor:
    """That of the exact gelu, in float64."""
    return below(x) + x * torch.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


def slope_error(library: Library, x: torch.Tensor) -> torch.Tensor:
    """How far the device's is off."""
    return (library("gelu_slope", x).double() - slope(x.double())).abs()


def test_the_slope_has_the_accuracy_of_float32(library: Library) -> None:
    """Sums of a few roundings of numbers up to 1: half of what the header states, which has two
    errors of the exponential."""
    dense = [torch.linspace(-16, 16, 1_000_001), torch.linspace(-1, 1, 200_001)]
    x = torch.cat([*dense, every(torch.bfloat16), every(torch.float16)])
    x = x[x.isfinite()]
    assert slope_error(library, x).max() < 2.0**-22.4
    around_zero = torch.linspace(-0.8, -0.7, 200_001)
    assert slope_error(library, around_zero).max() < 2.0**-23.5


def test_the_left_tail_of_the_slope(library: Library) -> None:
    """Within 2^-19 of itself, which has two errors of the exponential; or of subnormal numbers."""
    x = torch.linspace(-16, -1.2, 500_001)
    allowed_error = slope(x.double()).abs() * (2.0**-19 - 2 * EXPONENTIAL) + 2.0**-148
    assert (slope_error(library, x) <= allowed_error).all()


def test_special_values_of_the_slope(library: Library) -> None:
    """At infinities NaN, as PyTorch's."""
    x = torch.tensor([INF, -INF, NAN, 0.0, -0.0, 3e38, -3e38, 1e12, -1e12, 1e-40, -1e-40, -25.0])
    expected = [NAN, NAN, NAN, 0.5, 0.5, 1.0, 0.0, 1.0, 0.0, 0.5, 0.5, 0.0]
    torch.testing.assert_close(
        library("gelu_slope", x), torch.tensor(expected), rtol=0, atol=0, equal_nan=True
    )
