"""Errors in programs: what is wrong in the user's terms, at its place, with the mend.

The cases stand in tests/frontend/cases: a program, then for each error in it a line
`! line:column-end message` and, where there is one, its hint after `? `.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.frontend.programs import errors

CASES = {
    f"{path.stem}-{number}": case
    for path in sorted(Path(__file__).with_name("cases").glob("*.txt"))
    for number, case in enumerate(path.read_text(encoding="utf-8").split("---\n"), 1)
}


def test_all_kinds_of_cases_are_there() -> None:
    assert {name.partition("-")[0] for name in CASES} == {"names", "syntax", "types"}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_error(case: str) -> None:
    lines = case.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("! "))
    program = "\n".join(lines[:start]) + "\n"
    assert _shown(program) == lines[start:]


def _shown(program: str) -> list[str]:
    lines = []
    for line, column, end, message, hint in errors(program, model="M"):
        lines.append(f"! {line}:{column}-{end} {message}")
        if hint is not None:
            lines.append(f"? {hint}")
    return lines
