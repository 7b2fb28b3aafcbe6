"""The count of verifications without a false alarm."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusegen.testing import Case, Finding, alarms, verification
from fusegen.testing.subject import Subject

TEXT = "model Wide(width=5, scale=0.5):\n    input x: [width]\n    return x * scale\n"


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "wide.fuse"
    path.write_text(TEXT, encoding="utf-8")
    return f"{path}:width=7,scale=0.25"


def test_cases_and_alarms_are_counted(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[object] = []

    def check(subject: Subject, case: Case) -> Finding | None:
        seen.append((subject.chosen.name, case.draw(subject)[0].shape))
        return Finding("output: 1 of 7 elements are wrong") if len(seen) == 9 else None

    monkeypatch.setattr(verification, "check_case", check)
    monkeypatch.setattr(verification, "first_parting", lambda *_: None)
    monkeypatch.setattr(alarms, "FAMILIES", ())
    monkeypatch.setattr(alarms, "MOST_CASES", 5)
    assert alarms.main([file, "--target", "emulate"]) == 0
    assert seen == [("Wide", (7,))] * 5
    *_, last = capsys.readouterr().out.splitlines()
    assert last == "5 verifications of 1 models, 0 alarms"
    assert alarms.main([file, "--target", "emulate", "--seed", "1"]) == 1
    printed = capsys.readouterr().out
    assert "ALARM: output: 1 of 7 elements are wrong" in printed
    assert printed.endswith("4 verifications of 1 models, 1 alarms\n")
