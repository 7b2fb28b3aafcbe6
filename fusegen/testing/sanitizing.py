"""`python -m fusegen.testing.sanitizing`: NVIDIA's compute-sanitizer over every family of kernels.

Each of its tools watches a process that runs the kernels on drawn cases, forward and backward.
Every tensor has memory of its own there, so that an access beyond its end shows.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from fusegen.errors import FusegenError
from fusegen.runtime.gpu import gpus
from fusegen.runtime.jobs import parallel_jobs
from fusegen.runtime.toolchain import find_nvcc
from fusegen.testing.exercise import Exercise

TOOLS = {
    "memcheck": "accesses out of bounds",
    "racecheck": "races in shared memory",
    "initcheck": "reads of memory that nothing wrote",
    "synccheck": "barriers that not all threads reach",
}
# Told apart from what Python itself exits with.
FOUND = 86
SHOWN_LINES = 20
# That of generated kernels.
NAMESPACE = "fusegen::"
# What a tool says before and behind its findings.
PLACE = r"=========(\s+| .*\baccess )at "
FRAME = r"========= (COMPUTE-SANITIZER|.*SUMMARY|Target application)"
NOTHING = r"^========= (ERROR|RACECHECK) SUMMARY: 0 "


@dataclass(frozen=True)
class Sanitized:
    """What one tool said of an exercise; `report` has the head of its findings, or is empty."""

    tool: str
    report: str


def sanitize(
    exercise: Exercise, progress: Callable[[str], None] = lambda _: None
) -> tuple[Sanitized, ...]:
    """Let the tools watch an exercise: each of its parts under each tool in a process of its own,
    as many at the same time as there may be compilers, since each keeps one core busy, and the GPU
    hardly; `progress` is told what each has found. FusegenError where there is no GPU or no
    compute-sanitizer, or where it does not run."""
    if not gpus():
        raise FusegenError(
            "compute-sanitizer needs a GPU, and there is none here",
            "`fusegen verify --target emulate` checks every access as well",
        )
    program = find_sanitizer()
    exercise.build()

    def watched(turn: tuple[str, Exercise]) -> str:
        tool, part = turn
        report = _watched(program, tool, part)
        progress(f"{tool}: {part.title}: {report or f'no {TOOLS[tool]}'}")
        return f"{part.title}:\n{report}" if report else ""

    parts = exercise.parts()
    turns = [(tool, part) for tool in TOOLS for part in parts]
    with ThreadPoolExecutor(parallel_jobs()) as pool:
        reports = [*pool.map(watched, turns)]
    return tuple(
        Sanitized(tool, "\n".join(filter(None, reports[i * len(parts) : (i + 1) * len(parts)])))
        for i, tool in enumerate(TOOLS)
    )


def find_sanitizer() -> Path:
    """The compute-sanitizer on PATH, or else beside nvcc; FusegenError if there is none."""
    name = "compute-sanitizer"
    on_path = shutil.which(name)
    if on_path:
        return Path(on_path)
    folder = find_nvcc().path.resolve().parent
    for candidate in (folder / name, folder.parent / name / name):
        if candidate.is_file():
            return candidate
    raise FusegenError(
        "compute-sanitizer was not found",
        "it comes with the CUDA toolkit: put its folder on PATH",
    )


def _watched(program: Path, tool: str, exercise: Exercise) -> str:
    command = [
        str(program),
        f"--tool={tool}",
        f"--error-exitcode={FOUND}",
        sys.executable,
        *("-m", "fusegen.testing.exercise", exercise.as_json()),
    ]
    alone = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    answer = subprocess.run(command, env=alone, capture_output=True, text=True, check=False)
    said = answer.stdout + answer.stderr
    lines = said.splitlines()
    ours = _of_ours(lines) if answer.returncode == FOUND else []
    if ours:
        return "\n".join(ours[:SHOWN_LINES])
    # PyTorch's threads abort a process now and then that has done its work, and is ending.
    watched = answer.returncode in (0, FOUND) or re.search(NOTHING, said, re.MULTILINE)
    if watched and re.search(r"^ran \d+ cases$", said, re.MULTILINE):
        return ""
    raise FusegenError(
        f"compute-sanitizer's {tool} ended with status {answer.returncode} on {exercise.title}:\n"
        + "\n".join(lines[-SHOWN_LINES:])
    )


def _of_ours(lines: Sequence[str]) -> list[str]:
    """The findings, but for those in kernels that are none of ours: initcheck misses what a
    library's kernel writes by bulk copies, and then blames PyTorch's kernel that reads it, and
    racecheck finds races in cuBLAS's products of a K in parts."""
    findings: list[list[str]] = []
    for line in lines:
        if re.match(r"========= \S", line):
            findings.append([line])
        elif line.startswith("=========") and findings:
            findings[-1].append(line)
    kept = []
    for finding in findings:
        places = [line for line in finding if re.match(PLACE, line)]
        is_other = bool(places) and not any(NAMESPACE in line for line in places)
        if not is_other and not re.match(FRAME, finding[0]):
            kept += finding
    return kept


def main(arguments: Sequence[str]) -> int:
    """Watch every family; 1 if a tool finds something or cannot run."""
    if arguments:
        print(__doc__)
        return 2
    try:
        found = sanitize(Exercise(), lambda line: print(line, flush=True))
    except FusegenError as error:
        print(error)
        return 1
    print(as_text(found))
    return 1 if any(each.report for each in found) else 0


def as_text(found: Sequence[Sanitized]) -> str:
    """What the tools said, for people."""
    lines = []
    for each in found:
        lines.append(f"{each.tool}: {each.report or f'no {TOOLS[each.tool]}'}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
