"""Writes a request's sources and ninja files into a folder and builds the module there."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from fusegen import emulator
from fusegen.runtime.build_log import first_errors, known_mend
from fusegen.runtime.errors import BuildError
from fusegen.runtime.jobs import parallel_jobs
from fusegen.runtime.ninja_file import (
    BUILD_FILE,
    TOOLCHAIN_FILE,
    build_file,
    library_name,
    toolchain_file,
)
from fusegen.runtime.request import BuildRequest, Target
from fusegen.runtime.toolchain import Toolchain, find_toolchain

LOG_FILE = "build.log"
SCRIPT_FILE = "build.sh"

# By this the script is known as ours, of whatever version.
SCRIPT_HEAD = """\
#!/bin/sh
# Builds the module from the sources in this folder, without fusegen.
"""
# For whoever has the folder and not fusegen.
SCRIPT = f"""\
{SCRIPT_HEAD}\
# Needs nvcc, g++, ninja, and a Python with torch 2.11 or newer; NVCC, CXX and PYTHON name others.
set -eu
cd "$(dirname "$0")"
torch=$("${{PYTHON:-python3}}" -c 'import torch; print(list(torch.__path__)[0])')
cat > toolchain.ninja <<END
cxx = '$(command -v "${{CXX:-g++}}")'
nvcc = '$(command -v "${{NVCC:-nvcc}}")'
torch_include = '$torch/include'
torch_library = '$torch/lib/libtorch_cpu.so'
END
exec ninja
"""


def emit(requests: Sequence[BuildRequest], folder: Path) -> None:
    """Write all that a build of `requests` needs into `folder`; no compiler is looked for.

    The folder of a CUDA build also gets `build.sh`, which builds it on a machine without fusegen.
    """
    for request in requests:
        for name, text in request.sources.items():
            _write(folder / name, text)
    _write(folder / BUILD_FILE, build_file(requests))
    if requests[0].target is Target.CUDA:
        _write(folder / SCRIPT_FILE, SCRIPT)
        (folder / SCRIPT_FILE).chmod(0o755)


def build(
    request: BuildRequest,
    folder: Path,
    toolchain: Toolchain | None = None,
    compiled_headers: Path | None = None,
) -> Path:
    """Build `request` in `folder` and return the module's path.

    `toolchain` is looked for where none is given; `compiled_headers` is the folder of what was
    compiled ahead, without which an emulated build takes longer. What the compilers said is kept in
    `build.log`. Raises ToolchainError where something is missing, BuildError where a compiler
    fails.
    """
    toolchain = toolchain or find_toolchain(request.target)
    emit([request], folder)
    text = toolchain_file(toolchain, emulator_flags(request), compiled_headers)
    _write(folder / TOOLCHAIN_FILE, text)
    run_ninja(toolchain.ninja, folder, request.name)
    return folder / library_name(request)


def run_ninja(ninja: Path, folder: Path, name: str) -> None:
    """Run ninja in `folder`, its output kept in `build.log`; BuildError if a step of it fails."""
    environment = {**os.environ, "LC_ALL": "C", "NINJA_STATUS": ""}
    log = folder / LOG_FILE
    with log.open("w", encoding="utf-8") as stream:
        finished = subprocess.run(
            [ninja, "-v", "-k", "0", "-j", str(parallel_jobs())],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
    if finished.returncode:
        text = log.read_text(encoding="utf-8", errors="replace")
        raise BuildError(f"building {name} failed:\n{first_errors(text)}", log, known_mend(text))


def emulator_flags(request: BuildRequest) -> tuple[str, ...]:
    """The emulator's flags for the kernels of `request`; none for CUDA."""
    if request.target is Target.CUDA:
        return ()
    return tuple(emulator.compile_flags(request.check))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
