"""compute-sanitizer as a command: what it is given and what is made of its answers. A stand-in for
the program plays its part, since it needs a GPU."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from fusegen.cli.main import main
from fusegen.errors import FusegenError
from fusegen.runtime import gpu
from fusegen.runtime.gpu import Gpu
from fusegen.testing import sanitizing
from fusegen.testing.exercise import Exercise
from fusegen.testing.sanitizing import TOOLS, find_sanitizer, sanitize

MODEL = "model Twice():\n    input x: [n]\n    return x + x\n"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compute-sanitizer on PATH that says what ANSWER tells, and a GPU."""
    path = tmp_path / "compute-sanitizer"
    path.write_text(
        '#!/bin/sh\necho "========= $1 $PYTORCH_NO_CUDA_MEMORY_CACHING"\n$ANSWER\n',
        encoding="utf-8",
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(sanitizing, "gpus", lambda: (Gpu("a GPU", "sm_90a", 1),))
    monkeypatch.setattr(Exercise, "build", lambda self: None)
    return path


def test_the_program_is_found_on_the_path(program: Path) -> None:
    assert find_sanitizer() == program


@pytest.mark.usefixtures("program")
def test_a_clean_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSWER", "echo ran 4 cases")
    seen: list[str] = []
    found = sanitize(Exercise(families=["product", "rows of a warp"]), seen.append)
    models = [
        f"{name} in {dtype}" for name in ("product", "rows of a warp") for dtype in Exercise.dtypes
    ]
    lines = [f"{tool}: {model}: no {what}" for tool, what in TOOLS.items() for model in models]
    assert sorted(seen) == sorted(lines)
    assert [each.tool for each in found] == [*TOOLS]
    assert not any(each.report for each in found)


@pytest.mark.usefixtures("program")
def test_a_finding(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANSWER", "exit 86")
    file = tmp_path / "twice.fuse"
    file.write_text(MODEL, encoding="utf-8")
    assert main(["verify", str(file), "--sanitize", "--json"]) == 1
    reports = json.loads(capsys.readouterr().out)
    assert reports["racecheck"].splitlines() == [
        line
        for dtype in ("float32", "float16", "bfloat16")
        for line in (f"{file} in {dtype}:", "========= --tool=racecheck 1")
    ]


@pytest.mark.usefixtures("program")
def test_the_backward_is_left_out_as_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSWER", "echo ran 4 cases")
    seen: list[Exercise] = []
    monkeypatch.setattr(Exercise, "build", lambda self: seen.append(self))
    file = tmp_path / "twice.fuse"
    file.write_text(MODEL, encoding="utf-8")
    assert main(["verify", str(file), "--sanitize", "--forward-only"]) == 0
    monkeypatch.setattr(gpu, "gpus", lambda: (Gpu("a GPU", "sm_90a", 1),))
    ((subject, _),) = Exercise(**json.loads(seen[0].as_json())).subjects()
    assert subject.why_forward_only == "as asked"


UNINITIALISED = """\
========= Uninitialized __global__ memory read of size 16 bytes
=========     at {kernel}+0xc0
=========     by thread (0,0,0) in block (8,0,0)"""
RACE = """\
========= Error: Race reported between Read access at {kernel}+0xb30
=========     and Write access at {kernel}+0x2fb0 [192 hazards]"""


@pytest.mark.parametrize("finding", [UNINITIALISED, RACE])
@pytest.mark.parametrize(
    ("kernel", "is_ours"),
    [("void fusegen::twice_kernel<4, true>(float *)", True), ("void at::native::silu()", False)],
)
def test_findings_in_other_kernels_do_not_count(
    finding: str, kernel: str, is_ours: bool, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (
        "========= COMPUTE-SANITIZER",
        *finding.format(kernel=kernel).splitlines(),
        "========= ",
        "========= ERROR SUMMARY: 1 error",
    )
    said = "".join(f'echo "{line}"\n' for line in lines)
    program.write_text(f"#!/bin/sh\n{said}echo ran 2 cases\nexit 86\n", encoding="utf-8")
    reports = [each.report for each in sanitize(Exercise(families=["product"]))]
    assert all(bool(report) is is_ours for report in reports)
    assert not is_ours or "twice_kernel" in reports[0]
    # Nor do they stand for a run that broke off.
    program.write_text(f"#!/bin/sh\n{said}exit 86\n", encoding="utf-8")
    if not is_ours:
        with pytest.raises(FusegenError, match="ended with status 86"):
            sanitize(Exercise(families=["product"]))


@pytest.mark.parametrize("ran", [True, False])
def test_a_process_that_aborts_at_its_end(ran: bool, program: Path) -> None:
    done = "echo ran 2 cases\n" if ran else ""
    summary = 'echo "========= ERROR SUMMARY: 0 errors"'
    program.write_text(f"#!/bin/sh\n{done}{summary}\nexit 6\n", encoding="utf-8")
    if ran:
        assert not any(each.report for each in sanitize(Exercise(families=["product"])))
        return
    with pytest.raises(FusegenError, match="ended with status 6"):
        sanitize(Exercise(families=["product"]))


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize("answer", ["exit 1", "echo nothing ran"])
def test_a_run_that_fails_is_no_clean_one(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSWER", answer)
    with pytest.raises(FusegenError, match="compute-sanitizer's memcheck ended with status"):
        sanitize(Exercise())


def test_without_the_program(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program.unlink()
    nvcc = program.parent / "toolkit" / "bin" / "nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text("#!/bin/sh\necho release 13.0, V13.0.1\n", encoding="utf-8")
    nvcc.chmod(nvcc.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("FUSEGEN_NVCC", str(nvcc))
    with pytest.raises(FusegenError, match="compute-sanitizer was not found"):
        find_sanitizer()


def test_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sanitizing, "gpus", lambda: ())
    with pytest.raises(FusegenError, match="needs a GPU"):
        sanitize(Exercise())
