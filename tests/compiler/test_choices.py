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


@pytest.mark.parametrize(
    ("argument", "name"),
    [
        ("dtypes", "bfloat16"),
        ("architectures", "sm_90a"),
        ("precisions", "high"),
        ("autocasts", "float16"),
    ],
)
def test_a_string_where_a_list_is_due(
    model: Path, tmp_path: Path, argument: str, name: str
) -> None:
    given: dict[str, Any] = {argument: name}
    with pytest.raises(FusegenError, match=f"write {argument}=..{name}"):
        fusegen.compile(model, tmp_path / "out", emit_only=True, **given)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("dtypes", [["int8"], ["bool"], [None]])
def test_a_dtype_that_modules_do_not_have(model: Path, tmp_path: Path, dtypes: Any) -> None:
    with pytest.raises(FusegenError, match="a module's dtype cannot be"):
        fusegen.compile(model, tmp_path / "out", dtypes=dtypes, emit_only=True)
    assert not (tmp_path / "out").exists()
