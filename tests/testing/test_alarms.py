"""The count of verifications without a false alarm."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from fusegen.testing import Case, Failure, Finding, Verification, alarms, fuzzing
from fusegen.testing.subject import Subject

TEXT = "model Wide(width=5, scale=0.5):\n    input x: [width]\n    return x * scale\n"
WRONG = Failure(Case(), Finding("output: 1 of 7 elements are wrong"))


@pytest.mark.parametrize("tool", [alarms, fuzzing])
def test_without_a_gpu_nothing_is_blamed(
    tool: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "gpus", lambda: ())
    with pytest.raises(SystemExit, match="2"):
        tool.main(["--target", "cuda", "--seconds", "0.1"])
    assert "there is no CUDA GPU here" in capsys.readouterr().err


@pytest.mark.parametrize("failure", [WRONG, None])
def test_cases_and_alarms_are_counted(
    failure: Failure | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    path = tmp_path / "wide.fuse"
    path.write_text(TEXT, encoding="utf-8")
    turns = iter(
        (
            Verification(5, 1, 1.0, None, out_of_time=False),
            Verification(4, 0, 1.0, failure, out_of_time=True),
        )
    )
    seeds = []

    def verify(subject: Subject, *, seed: int, **others: object) -> Verification:
        (x,) = Case().draw(subject)
        assert x.shape == (7,)
        seeds.append(seed)
        return next(turns)

    monkeypatch.setattr(alarms, "verify", verify)
    monkeypatch.setattr(alarms, "FAMILIES", ())
    # A second for each look at the clock: one before all, and two for each turn.
    clock = SimpleNamespace(monotonic=itertools.count().__next__)
    monkeypatch.setattr(alarms, "time", clock)
    command = [f"{path}:width=7,scale=0.25", "--target", "emulate", "--seconds", "4"]
    assert alarms.main(command) == int(failure is not None)
    assert len(set(seeds)) == 2
    printed = capsys.readouterr().out
    assert "9 verifications, 1 refused by PyTorch" in printed
    assert ("ALARM: output: 1 of 7 elements are wrong" in printed) is (failure is not None)
    alarm = int(failure is not None)
    assert printed.endswith(f"9 verifications of 1 models, {alarm} alarms\n")
