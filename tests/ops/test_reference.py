"""The language reference's tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusegen.ops.reference import BEGIN, END, main, renewed, tables
from fusegen.ops.registry import FUNCTIONS, LAYERS

PAGE = Path(__file__).parents[2] / "docs" / "language.md"


def test_the_page_is_up_to_date() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == renewed(text), "run: python -m fusegen.ops.reference docs/language.md"


def test_every_function_and_layer_is_listed_with_its_arguments() -> None:
    text = tables()
    for name in (*FUNCTIONS, *LAYERS):
        assert f"| `{name}(" in text
    assert "| `layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-05)` |" in text
    assert "| `Conv2d(in_channels, out_channels, kernel_size, stride=1, padding=0" in text


def test_every_summary_is_a_sentence() -> None:
    for entry in (*FUNCTIONS.values(), *LAYERS.values()):
        assert entry.summary.endswith(".")


def test_only_the_part_between_the_markers_changes(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\na stale table\n{END}\nafter\n", encoding="utf-8")
    assert main([str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{BEGIN}\n")
    assert text.endswith(f"{END}\nafter\n")
    assert "a stale table" not in text
    assert renewed(text) == text


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="needs the markers"):
        renewed("no markers")


def test_a_page_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage" in capsys.readouterr().err
