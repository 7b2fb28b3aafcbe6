"""The functions whose reciprocals are multiplied out: compiled for the CPU, against float64."""

from __future__ import annotations

import pytest
import torch

from tests.ops.device_library import Library, every

NAMES = ("sigmoid", "silu", "tanh", "mish")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    names = [*(f"multiplied_{name}" for name in ("reciprocal", *NAMES)), "near_sigmoid"]
    names += ["near_tanh", "near_mish"]
    return Library(tmp_path_factory.mktemp("multiplied"), names)


def binade(exponent: int, step: int = 1) -> torch.Tensor:
    """The numbers from a power of two up to the next."""
    first = (exponent + 127) << 23
    return torch.arange(first, first + (1 << 23), step, dtype=torch.int32).view(torch.float32)


def test_the_reciprocal_of_every_mantissa(library: Library) -> None:
    x = binade(0)
    made = library("multiplied_reciprocal", x)
    error = made.double() * x.double() - 1
    assert -3.64e-6 < error.min() < -3.6e-6 and 1e-7 < error.max() < 1.1e-7
    assert made[0] == 1 and made.max() == 1


@pytest.mark.parametrize("exponent", [-126, -125, -64, -24, -1, 1, 63, 64, 122])
def test_other_binades_have_the_same_errors(library: Library, exponent: int) -> None:
    x = binade(exponent, step=61)
    made = library("multiplied_reciprocal", x)
    expected = library("multiplied_reciprocal", binade(0, step=61)).double() * 2.0**-exponent
    assert torch.equal(made.double(), expected)


def test_what_callers_have_to_take_care_of(library: Library) -> None:
    beyond = torch.cat([binade(126, step=61), binade(127, step=61)])
    special = torch.tensor([float("inf"), float("nan")])
    made = library("multiplied_reciprocal", torch.cat([beyond, special]))
    assert not (made > 2.0**-126).any()
    assert made[-2] == float("-inf") and made[-1].isnan()


def exact(name: str, x: torch.Tensor) -> torch.Tensor:
    """In float64, by formulas that do not cancel."""
    power = torch.exp(x)
    if name == "tanh":
        return torch.tanh(x)
    if name == "mish":  # tanh(log(1 + e)), by e that does not overflow
        part = torch.exp(x.clamp(max=300))
        part = part * (part + 2)
        return x * (part / (part + 2))
    sigmoid = torch.where(x < 0, power / (1 + power), 1 / (1 + torch.exp(-x)))
    return sigmoid if name == "sigmoid" else x * sigmoid


def allowed(name: str, x: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """The error that the header states, less that of the device's exponential, which is within
    2^-22 of itself (PTX ISA, ex2.approx) and here exact. Subnormal numbers are rounded."""
    if name == "tanh":  # the logarithm of 1 - 2 / (1 + e) has this slope by that of e
        exponential = 2.0**-22 * (1 - expected**2) / (2 * expected.abs())
        return expected.abs() * (2.0**-16 - exponential.where(x.abs() >= 0.25, 0))
    size = x.abs().clamp(max=128)
    times = 2 if name == "mish" else 1  # e (e + 2) has twice the error of e
    bound = expected.abs() * (times * (3 + size) * 2.0**-22 + 2.0**-18)
    return bound + 2.0**-149 * (1 if name == "sigmoid" else 1 + 2 * size)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", NAMES)
def test_every_number_of_16_bits(library: Library, name: str, dtype: torch.dtype) -> None:
    x = every(dtype)
    made = library(f"multiplied_{name}", x)
    expected = exact(name, x.double())
    finite = x.isfinite()
    error = (made.double() - expected)[finite].abs()
    bound = allowed(name, x.double(), expected)[finite]
    assert ((error <= bound) | (expected[finite] == made[finite])).all()


@pytest.mark.parametrize("name", NAMES)
def test_numbers_between_those_of_16_bits(library: Library, name: str) -> None:
    x = torch.cat([torch.linspace(-110, 110, 200_001), torch.linspace(-2, 2, 200_001)])
    made = library(f"multiplied_{name}", x)
    expected = exact(name, x.double())
    error = (made.double() - expected).abs()
    assert ((error <= allowed(name, x.double(), expected)) | (expected == made)).all()


@pytest.mark.parametrize("name", ["sigmoid", "tanh", "mish"])
def test_special_values_are_those_of_the_near_functions(library: Library, name: str) -> None:
    inf = float("inf")
    x = torch.tensor([inf, -inf, float("nan"), 0.0, -0.0, 3e38, -3e38, 1e-40, -1e-40, 40.0, 300.0])
    made, near = library(f"multiplied_{name}", x), library(f"near_{name}", x)
    torch.testing.assert_close(made, near, rtol=2.0**-17, atol=0, equal_nan=True)
    assert torch.equal(made.signbit()[~made.isnan()], near.signbit()[~near.isnan()])
    if name != "mish":
        assert torch.equal(made[-2:], torch.ones(2))  # not nearly, nor more


def test_special_values_of_silu(library: Library) -> None:
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([inf, -inf, nan, 0.0, -0.0, -3e38, -200.0, 300.0])
    made = library("multiplied_silu", x)
    expected = torch.tensor([inf, nan, nan, 0.0, -0.0, -0.0, -0.0, 300.0])
    torch.testing.assert_close(made, expected, rtol=0, atol=0, equal_nan=True)
    regular = ~made.isnan()
    assert torch.equal(made.signbit()[regular], expected.signbit()[regular])


def test_no_result_leaves_the_range_of_the_function(library: Library) -> None:
    x = torch.cat([torch.linspace(-40, 40, 400_001), every(torch.bfloat16), every(torch.float16)])
    x = x[~x.isnan()]
    sigmoid, tanh = library("multiplied_sigmoid", x), library("multiplied_tanh", x)
    assert sigmoid.min() == 0 and sigmoid.max() == 1
    assert tanh.min() == -1 and tanh.max() == 1


def test_tanh_keeps_the_sign_of_zero(library: Library) -> None:
    made = library("multiplied_tanh", torch.tensor([-0.0, 0.0]))
    assert made.signbit().tolist() == [True, False]
