"""Exit statuses and messages of the command line."""

from __future__ import annotations

import argparse
import subprocess
import sys

import pytest

import fusegen
from fusegen.cli import check
from fusegen.cli.main import main
from fusegen.errors import Diagnostic, FusegenError, Severity, SourceError

COMMANDS = ("compile", "check", "explain", "run", "verify", "bench", "tune", "doctor")


@pytest.mark.parametrize("arguments", [["--help"], *([name, "--help"] for name in COMMANDS)])
def test_help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    assert "usage: fusegen" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"fusegen {fusegen.__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["unknown"],
        ["check"],
        ["check", "a.fuse", "b.fuse"],
        ["check", "a.fuse", "-D", "n"],
        ["explain", "a.fuse", "--size", "batch=-1"],
        ["compile", "a.fuse", "--target", "tpu"],
        ["run", "a.fuse", "--dtype", "int4"],
        ["verify", "a.fuse", "--examples", "0"],
        ["verify", "a.fuse", "--seconds", "soon"],
        ["doctor", "--unknown"],
    ],
)
def test_misuse(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert "usage: fusegen" in output.err


def failing(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> int:
    """The status of a `check` that ends with `error`."""

    def fail(arguments: argparse.Namespace) -> int:
        raise error

    monkeypatch.setattr(check, "run", fail)
    return main(["check", "model.fuse"])


def test_users_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert failing(FusegenError("no such thing", hint="make one"), monkeypatch) == 1
    assert capsys.readouterr() == ("", "error: no such thing\n  hint: make one\n")


def test_source_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    error = SourceError("model.fuse", "", (Diagnostic(Severity.ERROR, "the file is empty"),))
    assert failing(error, monkeypatch) == 1
    assert capsys.readouterr() == ("", "model.fuse: error: the file is empty\n")


def test_interrupt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert failing(KeyboardInterrupt(), monkeypatch) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_a_fault_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError):
        failing(ZeroDivisionError(), monkeypatch)


def test_reader_that_goes_away() -> None:
    """`fusegen doctor --json | true` ends without a traceback."""
    writer = subprocess.Popen(
        [sys.executable, "-m", "fusegen", "doctor", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout is not None
    assert writer.stderr is not None
    writer.stdout.close()
    assert writer.stderr.read() == ""
    assert writer.wait() == 1
