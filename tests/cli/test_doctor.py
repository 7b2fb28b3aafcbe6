"""`fusegen doctor`, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fusegen import settings
from fusegen.cli.main import main


def test_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FUSEGEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("FUSEGEN_NVCC", "/nowhere/nvcc")
    assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    findings = {finding["name"]: finding for finding in report["findings"]}
    assert findings["ninja"]["fine"] is True
    assert findings["CUDA compiler"]["fine"] is False
    assert "FUSEGEN_NVCC" in findings["CUDA compiler"]["mend"]
    abilities = {ability["name"]: ability["possible"] for ability in report["abilities"]}
    assert abilities["build CUDA modules"] is False
    assert abilities["check, explain and emit sources"] is True
    values = {setting["name"]: setting["value"] for setting in report["settings"]}
    assert values["FUSEGEN_CACHE_DIR"] == str(tmp_path)
    assert set(values) == {setting.name for setting in settings.ALL}


def test_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FUSEGEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("FUSEGEN_CXX", "/nowhere/g++")
    assert main(["doctor"]) == 0
    output = capsys.readouterr().out
    assert "  no  C++ compiler: FUSEGEN_CXX is '/nowhere/g++'" in output
    assert "      mend: correct FUSEGEN_CXX, or unset it" in output
    assert f"  FUSEGEN_CACHE_DIR = {tmp_path}" in output
    assert all(setting.meaning in output for setting in settings.ALL)
