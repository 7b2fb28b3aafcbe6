"""The language page: its programs are right, and what it lists is what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fusegen.frontend.names import DTYPES
from fusegen.frontend.tensors import INITIALISERS
from tests.frontend.programs import elaborated, errors

PAGE = (Path(__file__).parents[2] / "docs" / "language.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```fuse\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_page_has_programs() -> None:
    assert len(PROGRAMS) >= 6


@pytest.mark.parametrize("program", PROGRAMS)
def test_program(program: str) -> None:
    assert elaborated(program).warnings == ()


def test_the_error_shown_is_what_is_said() -> None:
    program = "model M:\n    input x: [batch]\n\n    # an error\n    return x |> rleu\n"
    assert errors(program) == [(5, 17, 21, "'rleu' is not known here", "did you mean 'relu'?")]


def test_dtypes_and_initial_values_are_listed() -> None:
    assert all(f"`{dtype}`" in PAGE for dtype in DTYPES)
    assert all(f'`"{word}"`' in PAGE for word in INITIALISERS)
