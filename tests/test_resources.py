"""The files that travel with the package."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusegen import resources

CHECKOUT = Path(__file__).parents[1]


def test_include_files() -> None:
    include = CHECKOUT / "templates" / "include"
    files = resources.include_files()
    assert list(files) == sorted(files)
    assert "fusegen/device.cuh" in files
    for name, text in files.items():
        assert text == (include / name).read_text(encoding="utf-8")


def test_template_by_name() -> None:
    text = (CHECKOUT / "templates" / "include" / "fusegen" / "device.cuh").read_text()
    assert resources.template("include/fusegen/device.cuh") == text


def test_missing_file() -> None:
    with pytest.raises(FileNotFoundError):
        resources.grammar("missing.lark")
