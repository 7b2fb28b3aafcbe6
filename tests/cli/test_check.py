"""`fusegen check` of a file with several models."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusegen.cli.main import main


def test_model_chooses_one_of_several(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "two.fuse"
    body = "    input x: [n]\n    return x * 2\n"
    path.write_text(f"model A():\n{body}\nmodel B(k=2):\n    input x: [n]\n    return x * k\n")
    assert main(["check", str(path)]) == 1
    assert "say which: --model NAME" in capsys.readouterr().err
    assert main(["check", str(path), "--model", "B", "-D", "k=3"]) == 0
    assert main(["check", str(path), "--model", "A", "-D", "k=3"]) == 1
    assert "model 'A' has no argument 'k'" in capsys.readouterr().err
