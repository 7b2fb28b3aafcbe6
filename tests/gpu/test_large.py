"""Tensors of more than 2**31 elements (case L43): the last rows are right."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import fusegen

COLUMNS = 1024
ROWS = 2**21 + 5  # 5 rows beyond 2**31 elements
LAST = 8

SOURCE = """
model Large():
    input x: [rows, {columns}]
    return {result}
"""


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("result", "exact"),
    [
        ("x * 2 + 1", lambda x: x * 2 + 1),
        ("softmax(x, dim=1)", lambda x: torch.softmax(x, 1)),
        ("sum(x, dim=1)", lambda x: x.sum(1)),
    ],
    ids=["elementwise", "softmax", "sum"],
)
def test_l43_last_rows_beyond_32_bit_offsets(tmp_path: Path, result: str, exact) -> None:
    file = tmp_path / "large.fuse"
    file.write_text(SOURCE.format(columns=COLUMNS, result=result))
    module = fusegen.load(file)()
    torch.manual_seed(0)
    x = torch.randn(ROWS, COLUMNS, device="cuda", dtype=torch.float16)
    with torch.no_grad():
        found = module(x)[-LAST:].double()
    expected = exact(x[-LAST:].double())
    # One rounding of the result to float16, and float32 sums of 1024 terms.
    allowed = torch.finfo(torch.float16).eps * expected.abs() + 1e-5
    assert bool(((found - expected).abs() <= allowed).all())
