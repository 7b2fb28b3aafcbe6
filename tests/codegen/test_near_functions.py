"""Quicker functions stand where a result of 16 bits hides their error, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fusegen.ir.dtypes import DType
from tests.emulated import apply, cuda_text, graph, planned, run, value

RECORDS = ["sigmoid", "silu", "mish", "exp", "tanh", "gelu"]
FLOATS = [DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64]
NARROW = (DType.FLOAT16, DType.BFLOAT16)


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_by_the_type_of_the_result(name: str, dtype: DType) -> None:
    x = value("x", "n", dtype=dtype)
    text = cuda_text(planned(graph([x], apply(name, x))))
    assert ("fusegen::near_" in text) == (dtype in NARROW)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_both_forms_of_gelu(approximate: str, dtype: DType) -> None:
    x = value("x", "n", dtype=dtype)
    text = cuda_text(planned(graph([x], apply("gelu", x, approximate=approximate))))
    prefix = "near_" if dtype in NARROW else ""
    assert f"fusegen::{prefix}gelu_{approximate}(" in text


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_quotient_by_the_type_of_the_result(dtype: DType) -> None:
    x, y = value("x", "n", dtype=dtype), value("y", "n", dtype=dtype)
    text = cuda_text(planned(graph([x, y], apply("div", x, y))))
    assert ("fusegen::near_quotient" in text) == (dtype in NARROW)


@pytest.mark.parametrize("dtype", FLOATS)
def test_softmax_works_in_float32_and_is_rounded_at_the_end(dtype: DType) -> None:
    x = value("x", "n", 64, dtype=dtype)
    text = cuda_text(planned(graph([x], apply("softmax", x, dim=1))))
    assert ("fusegen::near_exp" in text) == (dtype in NARROW)
    assert (".near_quotient(" in text) == (dtype in NARROW)


@pytest.mark.parametrize("dtype", NARROW)
def test_what_is_subtracted_later_is_exact(dtype: DType) -> None:
    """log(sum) of one great exponential is as small as the error of that exponential."""
    x = value("x", "n", 64, dtype=dtype)
    text = cuda_text(planned(graph([x], apply("log_softmax", x, dim=1))))
    assert "near_" not in text


def test_what_leaves_in_float32_too_is_exact() -> None:
    x = value("x", "n", 64, dtype=DType.FLOAT32)
    weights = apply("exp", x)
    shares = apply("div", weights, apply("sum", weights, dim=1, keepdim=True))
    narrow = apply("to", shares, dtype=DType.BFLOAT16)
    assert "near_exp" in cuda_text(planned(graph([x], narrow)))
    assert "near_" not in cuda_text(planned(graph([x], narrow, shares)))


def test_the_error_that_the_header_states() -> None:
    """exp by 2^(x log2 e + 24), the exponent rounded to float32 and an exponential within 2^-22."""
    x = np.linspace(-87, 70, 10_001).astype(np.float32)
    exponent = (x.astype(np.float64) * np.float32(1.44269504) + 24).astype(np.float32)
    made = np.exp2(exponent.astype(np.float64) - 24)
    error = np.abs(made / np.exp(x.astype(np.float64)) - 1)
    assert np.all(error + 2.0**-22 <= (4 + np.abs(x)) * 2.0**-22)


@pytest.mark.parametrize("name", ["sigmoid", "silu", "mish", "exp"])
def test_the_left_tail_is_kept(name: str) -> None:
    """Where the exponential is below the least normal number: found by random models."""
    x = torch.arange(-104.0, -80.0, 0.5).bfloat16()
    node = value("x", "n", dtype=DType.BFLOAT16)
    (result,) = run(graph([node], apply(name, node)), [x])
    wide = x.double()
    slope = torch.exp(wide)  # sigmoid(x) and tanh(softplus(x)) are exp(x) there
    expected = slope if name in ("sigmoid", "exp") else wide * slope
    least = 2.0**-133  # of bfloat16
    allowed = expected.abs() * 2.0**-8 + least + wide.abs() * 2.0**-149
    assert ((result.double() - expected).abs() <= allowed).all()


def test_the_error_of_the_square() -> None:
    """The same of the half, squared: twice the exponential's error, and a rounding."""
    x = np.linspace(-103, 88, 10_001).astype(np.float32)
    half = x * np.float32(0.72134752)
    error = np.abs(np.exp2(half.astype(np.float64)) ** 2 / np.exp(x.astype(np.float64)) - 1)
    assert np.all(error + 2 * 2.0**-22 <= (2 + np.abs(x)) * 2.0**-22)


def test_the_error_of_tanh() -> None:
    """Both sides of the branch, with an exponential and a reciprocal off by what they may be."""
    x = np.concatenate([np.linspace(-10, 10, 20_001), np.geomspace(1e-30, 1, 5_001)])
    x = x[x != 0].astype(np.float32)
    exact = np.tanh(x.astype(np.float64))
    square = x * x
    series = x * (1 + square * (square * np.float32(2 / 15) - np.float32(1 / 3)))
    power = np.exp2((2 * x * np.float32(1.44269504)).astype(np.float64))
    for sign in (-1, 1):
        sum_ = (1 + power * (1 + sign * 2.0**-22)).astype(np.float32)
        reciprocal = (1 / sum_.astype(np.float64) * (1 + sign * 2.0**-23)).astype(np.float32)
        whole = np.float32(1) - np.float32(2) * reciprocal
        result = np.where(np.abs(x) < 0.125, series, whole).astype(np.float64)
        assert np.all(np.abs(result / exact - 1) <= 2.0**-16)


@pytest.mark.parametrize("dtype", NARROW)
def test_tanh_keeps_the_sign_of_zero(dtype: DType) -> None:
    node = value("x", "n", dtype=dtype)
    x = torch.tensor([-0.0, 0.0]).to(torch.bfloat16 if dtype is DType.BFLOAT16 else torch.float16)
    (result,) = run(graph([node], apply("tanh", node)), [x])
    assert result.eq(0).all() and result.signbit().tolist() == [True, False]
