"""FUSEGEN_DUMP shows every stage."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusegen import compiler
from fusegen.frontend import Source

SOURCE = Source("m.fuse", "model M:\n    input x: [n, 4]\n    return softmax(x, dim=1)\n")


def test_stages_as_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSEGEN_DUMP", f"all:{tmp_path / 'dump'}")
    compiler.compile_to_folder(SOURCE, tmp_path / "out", arguments={}, emit_only=True)
    files = {path.name: path.read_text() for path in (tmp_path / "dump").iterdir()}
    assert "softmax" in files["ast-m.fuse.txt"]
    assert files["graph-M-float32.txt"].splitlines() == [
        "%0 x: float32[n, 4] = input()",
        "%1: float32[n, 4] = softmax(%0, dim=1, dtype=None)",
        "return %1",
    ]
    assert "amax" in files["passes-decompose.txt"]
    assert "RowPlan" in files["plan-m_float32.txt"]
    assert "__global__" in files["cuda-m_float32.txt"]


def test_the_planners_own_passes_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "model M:\n    input x: [n, 4]\n    y = x * x\n    return sum(y, dim=0), sum(y, dim=1)\n"
    monkeypatch.setenv("FUSEGEN_DUMP", f"passes:{tmp_path / 'dump'}")
    source = Source("m.fuse", text)
    compiler.compile_to_folder(
        source, tmp_path / "out", arguments={}, inference_only=True, emit_only=True
    )
    shown = (tmp_path / "dump" / "passes-separate-reductions.txt").read_text()
    assert shown.count("= mul(") == 2


def test_nothing_is_shown_unasked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.delenv("FUSEGEN_DUMP", raising=False)
    compiler.compile_to_folder(SOURCE, tmp_path / "out", arguments={}, emit_only=True)
    assert capsys.readouterr() == ("", "")
