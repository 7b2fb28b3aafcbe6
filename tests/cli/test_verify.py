"""`fusegen verify`: statuses, the report, and the program that shows a failure again."""

from __future__ import annotations

import contextlib
import io
import json
import textwrap
from pathlib import Path

import pytest

from fusegen.cli import verify
from fusegen.cli.main import main
from fusegen.runtime import gpu
from fusegen.testing import subject

MODEL = """
model Gate(features=6):
    input x: [rows, features]
    gain = Parameter([features], init="ones")
    hidden = x * gain
    return hidden |> sigmoid |> mul(x)
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "gate.fuse"
    path.write_text(MODEL, encoding="utf-8")
    return str(path)


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels whose results are wrong from 3 rows on."""
    right = subject.Subject.kernels

    def kernels(self: subject.Subject, tensors: object) -> object:
        (result,) = right(self, tensors)  # type: ignore[arg-type]
        return (result * 2 if result.shape[0] >= 3 else result,)

    monkeypatch.setattr(subject.Subject, "kernels", kernels)


def run(*options: str) -> int:
    # The examples are what ends it, however busy the machine is.
    limits = ("--examples", "15", "--seconds", "600")
    return main(["verify", *limits, "--target", "emulate", *options])


def test_a_right_model(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(file) == 0
    output = capsys.readouterr()
    assert output.out.startswith("Gate: right in ") and "in the emulator" in output.out
    assert output.err == ""


def test_one_case_is_one(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", file, "--target", "emulate", "--examples", "1", "--seconds", "600"]) == 0
    assert capsys.readouterr().out.startswith("Gate: right in 1 case in the emulator")


@pytest.mark.usefixtures("wrong")
def test_a_failure_is_shrunk_and_printed_as_a_program(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(file, "--dtype", "float32") == 1
    report, _, program = capsys.readouterr().out.partition("To see it again:")
    assert "Gate: WRONG" in report and "18 of 18 elements are wrong" in report
    assert "sizes={'rows': 3}" in program and "tensors={}" in program
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(textwrap.dedent(program), {})
    assert "18 of 18 elements are wrong" in printed.getvalue()


@pytest.mark.usefixtures("wrong")
def test_json(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(file, "--json", "--dtype", "float32", "--size", "rows=4") == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["right"] is False and answer["model"] == "Gate"
    assert "'rows': 4" in answer["failure"]["case"]
    assert answer["failure"]["headline"].endswith("24 of 24 elements are wrong")


def test_nothing_checked_is_not_right(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(file, "--seconds", "0.000001") == 1
    printed = capsys.readouterr().out
    assert (
        printed.startswith("Gate: NOT VERIFIED: the 1e-06 s were over") and "--seconds" in printed
    )


def test_without_a_gpu(
    file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "gpus", lambda: ())
    assert run(file, "--target", "cuda") == 1
    message = capsys.readouterr().err
    assert "there is no CUDA GPU here" in message and "--target emulate" in message


def test_the_sanitizer_and_the_emulator_exclude_each_other(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(file, "--sanitize") == 1
    assert "leave out --sanitize" in capsys.readouterr().err


def test_without_hypothesis(
    file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "find_spec", lambda name: None)
    assert run(file) == 1
    assert "pip install hypothesis" in capsys.readouterr().err


def test_an_unknown_size_is_refused(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(file, "--size", "row=4") == 1
    assert "'row'" in capsys.readouterr().err
