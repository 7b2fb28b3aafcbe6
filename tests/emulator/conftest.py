"""Builds the emulator's runtime and the test kernels once a session, and launches them."""

from __future__ import annotations

import ctypes
import functools
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fusegen import emulator
from fusegen.emulator import EmulatorRuntime

KERNELS = Path(__file__).parent / "kernels"
DEVICE_HEADERS = Path(__file__).parents[2] / "templates" / "include"


def compile_with(*command: object) -> None:
    """Run a compiler, which must succeed and have nothing to say."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout + done.stderr == ""


def build_runtime(path: Path, *extra: str) -> Path:
    compile_with(
        "g++",
        *emulator.runtime_sources(),
        *emulator.runtime_compile_flags(),
        *extra,
        "-o",
        path,
    )
    return path


def build_kernel(path: Path, name: str, fault: str | None, check: bool) -> Path:
    object_file = path.with_suffix(".o")
    compile_with(
        "g++",
        *emulator.compile_flags(check),
        f"-I{DEVICE_HEADERS}",
        *([f"-D{fault}"] if fault else []),
        "-c",
        KERNELS / f"{name}.cu",
        "-o",
        object_file,
    )
    compile_with("g++", *emulator.link_flags(), object_file, "-o", path)
    return path


def fault_place(name: str, fault: str) -> str:
    """The place, as reports show it, of the line that is marked as the fault's.

    The mark stands at the end of the line, or before it on lines of its own.
    """
    lines = (KERNELS / f"{name}.cu").read_text(encoding="utf-8").splitlines()
    (number,) = [i for i, line in enumerate(lines, 1) if line.endswith(f"// found: {fault}")]
    while lines[number - 1].strip().startswith("//"):
        number += 1
    return f"{name}.cu:{number}"


class Kernel:
    """A loaded kernel library. Arrays are passed by address, other arguments as C ints."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        self._library.fusegen_error_text.restype = ctypes.c_char_p

    def __call__(self, *arguments: object, entry: str = "run") -> str | None:
        """Launch; the report of a fault, or None."""
        code = getattr(self._library, entry)(
            *(
                ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray) else ctypes.c_int(a)
                for a in arguments
            )
        )
        text: bytes = self._library.fusegen_error_text(code)
        return text.decode() if code else None


LoadKernel = Callable[..., Kernel]


@pytest.fixture(scope="session")
def session_runtime(tmp_path_factory: pytest.TempPathFactory) -> EmulatorRuntime:
    return emulator.load_runtime(build_runtime(tmp_path_factory.mktemp("runtime") / "emulator.so"))


@pytest.fixture(scope="session")
def load_kernel(
    session_runtime: EmulatorRuntime, tmp_path_factory: pytest.TempPathFactory
) -> LoadKernel:
    folder = tmp_path_factory.mktemp("kernels")

    @functools.cache
    def load(name: str, fault: str | None = None, check: bool = False) -> Kernel:
        path = folder / f"{name}-{fault}-{check}.so"
        return Kernel(build_kernel(path, name, fault, check))

    return load


@pytest.fixture
def runtime(session_runtime: EmulatorRuntime) -> EmulatorRuntime:
    """The runtime with its settings and memory as new."""
    session_runtime.configure()
    session_runtime.forget_all()
    return session_runtime


def expose(runtime: EmulatorRuntime, array: np.ndarray, initialised: bool) -> None:
    runtime.expose(array.ctypes.data, array.nbytes, initialised)
