"""Quicker functions stand where a result of 16 bits hides their error, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fusegen.ir.dtypes import DType
from tests.emulated import apply, cuda_text, graph, planned, run, value

RECORDS = ["sigmoid", "silu", "mish"]


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64])
def test_by_the_type_of_the_result(name: str, dtype: DType) -> None:
    x = value("x", "n", dtype=dtype)
    text = cuda_text(planned(graph([x], apply(name, x))))
    assert ("fusegen::near_" in text) == (dtype in (DType.FLOAT16, DType.BFLOAT16))


def test_the_error_that_the_header_states() -> None:
    """exp by 2^(x log2 e + 24), the exponent rounded to float32 and an exponential within 2^-22."""
    x = np.linspace(-87, 70, 10_001).astype(np.float32)
    exponent = (x.astype(np.float64) * np.float32(1.44269504) + 24).astype(np.float32)
    made = np.exp2(exponent.astype(np.float64) - 24)
    error = np.abs(made / np.exp(x.astype(np.float64)) - 1)
    assert np.all(error + 2.0**-22 <= (4 + np.abs(x)) * 2.0**-22)


@pytest.mark.parametrize("name", RECORDS)
def test_the_left_tail_is_kept(name: str) -> None:
    """Where the exponential is below the least normal number: found by random models."""
    x = torch.arange(-104.0, -80.0, 0.5).bfloat16()
    node = value("x", "n", dtype=DType.BFLOAT16)
    (result,) = run(graph([node], apply(name, node)), [x])
    wide = x.double()
    slope = torch.exp(wide) if name != "sigmoid" else torch.sigmoid(wide)
    expected = slope if name == "sigmoid" else wide * slope  # tanh(softplus(x)) is exp(x) there
    least = 2.0**-133  # of bfloat16
    allowed = expected.abs() * 2.0**-8 + least + wide.abs() * 2.0**-149
    assert ((result.double() - expected).abs() <= allowed).all()
