"""Element types against PyTorch's."""

from __future__ import annotations

import itertools

import pytest
import torch

from fusegen.ir.dtypes import DType, promote


def torch_dtype(dtype: DType) -> torch.dtype:
    """PyTorch's dtype of the same name."""
    found = getattr(torch, dtype.value)
    assert isinstance(found, torch.dtype)
    return found


@pytest.mark.parametrize("dtype", DType)
def test_properties(dtype: DType) -> None:
    assert dtype.itemsize == torch_dtype(dtype).itemsize
    assert dtype.is_float is torch_dtype(dtype).is_floating_point


@pytest.mark.parametrize("first,second", list(itertools.product(DType, repeat=2)))
def test_promote(first: DType, second: DType) -> None:
    expected = torch.promote_types(torch_dtype(first), torch_dtype(second))
    assert torch_dtype(promote(first, second)) is expected


def test_16_bit_floats_are_computed_in_float32() -> None:
    assert {d.compute for d in (DType.FLOAT16, DType.BFLOAT16)} == {DType.FLOAT32}
    wide = [d for d in DType if d not in (DType.FLOAT16, DType.BFLOAT16)]
    assert all(d.compute is d for d in wide)
