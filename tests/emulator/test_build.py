"""The emulator's sources and the headers of generated kernels compile wherever they should."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fusegen import emulator
from fusegen.runtime.builder import LOG_FILE
from fusegen.runtime.emulator_library import emulator_library
from tests.emulator.kernel_library import (
    DEVICE_HEADERS,
    KERNELS,
    build_kernel,
    build_runtime,
    compile_with,
)


def gxx_command(source: Path, output: Path) -> list[object]:
    flags = emulator.compile_flags(check=False)
    return ["g++", *flags, f"-I{DEVICE_HEADERS}", "-c", source, "-o", output]


def nvcc_command(source: Path, output: Path) -> list[object]:
    warnings = ["-Xcompiler", "-Wall,-Wextra"]
    headers = f"-I{DEVICE_HEADERS}"
    architecture = "90a" if source.stem.startswith("hopper_") else "80"
    target = f"-gencode=arch=compute_{architecture},code=sm_{architecture}"
    return ["nvcc", "-cubin", target, *warnings, headers, source, "-o", output]


COMMANDS = {"g++": gxx_command, "nvcc": nvcc_command}
COMPILERS = [name for name in COMMANDS if shutil.which(name)]


@pytest.mark.parametrize("source", sorted(KERNELS.glob("*.cu")), ids=lambda path: path.stem)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_same_text_compiles_without_warning(compiler: str, source: Path, tmp_path: Path) -> None:
    compile_with(*COMMANDS[compiler](source, tmp_path / "kernel"))


def test_sources_stand_beside_the_shim() -> None:
    folder = emulator.source_folder()
    assert (folder / "include" / "fusegen_emulator.h").is_file()
    assert {path.name for path in emulator.runtime_sources()} >= {"fiber.cpp", "checker.cpp"}
    # Object files are named after the sources.
    stems = [path.stem for path in emulator.runtime_sources()]
    assert len(set(stems)) == len(stems)


def test_the_runtime_compiles_without_warning() -> None:
    log = (emulator_library().parent / LOG_FILE).read_text(encoding="utf-8")
    assert all(source.name in log for source in emulator.runtime_sources())
    assert "warning" not in log


def test_only_checked_kernels_are_instrumented() -> None:
    assert "-fsanitize=thread" in emulator.compile_flags(check=True)
    assert "-fsanitize=thread" not in emulator.compile_flags(check=False)


LAUNCH_IN_A_NEW_PROCESS = """
import pathlib, sys
import numpy as np
from fusegen import emulator
from tests.emulator.kernel_library import Kernel

runtime = emulator.load_runtime(pathlib.Path(sys.argv[1]))
kernel = Kernel(pathlib.Path(sys.argv[2]))
x = np.random.default_rng(0).integers(0, 10, size=(4, 300)).astype(np.int32)
for seed in range(3):
    y = np.zeros((4, 3), np.int32)
    runtime.configure(seed)
    assert kernel(x, y, 4, 300) is None
    assert y[:, 2].tolist() == (x > 5).sum(axis=1).tolist()
"""


def test_portable_switch_between_fibers(tmp_path: Path) -> None:
    # The way taken on processors without a hand-written switch, in a process of its own. How quick
    # it is does not matter here, how long it takes to compile does.
    runtime = build_runtime(tmp_path / "runtime.so", "-DFUSEGEN_EMULATOR_PORTABLE_SWITCH", "-O0")
    kernel = build_kernel(tmp_path / "kernel.so", "block_votes", None, check=False)
    command = [sys.executable, "-c", LAUNCH_IN_A_NEW_PROCESS, str(runtime), str(kernel)]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
