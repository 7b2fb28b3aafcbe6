"""Test kernels: how they are built, loaded, and called with NumPy arrays."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np

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
        *emulator.runtime_link_flags(),
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


def fault_places(name: str, fault: str) -> list[str]:
    """The places, as reports show them, of the lines that are marked as the fault's.

    A mark stands at the end of the line, or before it on lines of its own.
    """
    lines = (KERNELS / f"{name}.cu").read_text(encoding="utf-8").splitlines()
    numbers = [i for i, line in enumerate(lines, 1) if line.endswith(f"// found: {fault}")]
    assert numbers, f"{name}.cu has no line marked {fault}"
    return [f"{name}.cu:{_line_after_marks(lines, number)}" for number in numbers]


def _line_after_marks(lines: list[str], number: int) -> int:
    while lines[number - 1].strip().startswith("//"):
        number += 1
    return number


def fault_place(name: str, fault: str) -> str:
    """The place of the one line that is marked as the fault's."""
    (place,) = fault_places(name, fault)
    return place


class Kernel:
    """A loaded kernel library. Arrays are passed by address, other arguments as C ints."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._library = ctypes.CDLL(str(path))
        self._library.fusegen_error_text.restype = ctypes.c_char_p

    def __call__(self, *arguments: np.ndarray | int, entry: str = "run") -> str | None:
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


def expose(runtime: EmulatorRuntime, array: np.ndarray, initialised: bool) -> None:
    runtime.expose(array.ctypes.data, array.nbytes, initialised)
