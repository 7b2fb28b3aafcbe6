"""Quicker functions stand where a result of 16 bits hides their error, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from fusegen.ir.dtypes import DType
from tests.emulated import apply, cuda_text, graph, planned, value

RECORDS = ["sigmoid", "silu", "mish"]


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64])
def test_by_the_type_of_the_result(name: str, dtype: DType) -> None:
    x = value("x", "n", dtype=dtype)
    text = cuda_text(planned(graph([x], apply(name, x))))
    assert ("fusegen::near_" in text) == (dtype in (DType.FLOAT16, DType.BFLOAT16))


def test_the_error_that_the_header_states() -> None:
    """exp by 2^(x log2 e) with the product rounded to float32 and an exponential within 2^-22."""
    x = np.linspace(-87, 88, 10_001).astype(np.float32)
    product = x * np.float32(1.44269504)
    error = np.abs(np.exp2(product.astype(np.float64)) / np.exp(x.astype(np.float64)) - 1)
    assert np.all(error + 2.0**-22 <= (1 + np.abs(x)) * 2.0**-22)
