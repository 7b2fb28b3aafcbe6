"""What the Python API refuses by name, in the user's terms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fusegen
from fusegen.errors import FusegenError


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "row.fuse"
    path.write_text("model Row(width=24):\n    input x: [batch, width]\n    return x * 2\n")
    return path


def test_an_unknown_target(model: Path, tmp_path: Path) -> None:
    with pytest.raises(FusegenError, match="there is no target 'tpu'"):
        fusegen.load(model, target="tpu")
    with pytest.raises(FusegenError, match="targets are 'cuda', 'emulate'"):
        fusegen.compile(model, tmp_path / "out", target="gpu")


def test_an_unknown_precision(model: Path, tmp_path: Path) -> None:
    with pytest.raises(FusegenError, match="there is no precision 'tf32'"):
        fusegen.compile(model, tmp_path / "out", precisions=["tf32"], emit_only=True)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("dtypes", [["int8"], ["bool"], "bfloat16", [None]])
def test_a_dtype_that_modules_do_not_have(model: Path, tmp_path: Path, dtypes: Any) -> None:
    with pytest.raises(FusegenError, match="a module's dtype cannot be"):
        fusegen.compile(model, tmp_path / "out", dtypes=dtypes, emit_only=True)
    assert not (tmp_path / "out").exists()
