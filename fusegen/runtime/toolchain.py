"""Finds the compilers and ninja. Whatever is missing is said in one line, with the mend."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fusegen import settings
from fusegen.runtime.errors import ToolchainError
from fusegen.runtime.request import Target
from fusegen.runtime.torch_install import TorchInstall, find_torch

CXX_NAMES = ("g++", "c++", "clang++")
DEFAULT_CUDA_FOLDER = Path("/usr/local/cuda")
"""Where NVIDIA's installers put the toolkit."""


@dataclass(frozen=True)
class Compiler:
    """A compiler's path and all that its `--version` prints, which tells two builds of it apart."""

    path: Path
    version_text: str

    @property
    def version(self) -> str:
        """The version in short, such as `13.0.88` or `12.2.0`."""
        found = re.search(r"\bV(\d[\d.]*)", self.version_text) or re.search(
            r"(\d+\.\d+(\.\d+)?)", self.version_text
        )
        return found.group(1) if found else "unknown"


@dataclass(frozen=True)
class Toolchain:
    """What a build needs of this machine; `nvcc` is None where only the emulator is built for."""

    cxx: Compiler
    nvcc: Compiler | None
    ninja: Path
    torch: TorchInstall


def find_toolchain(target: Target) -> Toolchain:
    """All that a build for `target` needs; ToolchainError for the first thing that is missing."""
    nvcc = find_nvcc() if target is Target.CUDA else None
    return Toolchain(find_cxx(), nvcc, find_ninja(), find_torch())


def find_cxx() -> Compiler:
    """The C++ compiler: FUSEGEN_CXX, else the first of g++, c++ and clang++ on PATH."""
    chosen = settings.CXX.value()
    if chosen:
        return _compiler(_named_by(settings.CXX, chosen))
    for name in CXX_NAMES:
        found = shutil.which(name)
        if found:
            return _compiler(Path(found))
    raise ToolchainError(
        "no C++ compiler was found; `fusegen check`, `explain` and `compile --emit-only` work "
        "without one",
        hint=f"install g++ (Debian and Ubuntu: apt install g++), or set {settings.CXX.name}",
    )


def find_nvcc() -> Compiler:
    """The CUDA compiler, from the places that FUSEGEN_NVCC's record in settings.py names."""
    chosen = settings.NVCC.value()
    if chosen:
        return _compiler(_named_by(settings.NVCC, chosen))
    for candidate in _nvcc_candidates():
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return _compiler(candidate)
    raise ToolchainError(
        "no CUDA compiler (nvcc) was found; the emulator (--target emulate) and "
        "`fusegen compile --emit-only` work without one",
        hint=f"install the CUDA toolkit, or set CUDA_HOME to its folder or {settings.NVCC.name} "
        "to its nvcc",
    )


def find_ninja() -> Path:
    """The ninja of the `ninja` package, which need not be on PATH; else the one on PATH."""
    if importlib.util.find_spec("ninja") is not None:
        import ninja

        packaged = Path(ninja.BIN_DIR) / "ninja"
        if packaged.is_file():
            return packaged
    found = shutil.which("ninja")
    if found:
        return Path(found)
    raise ToolchainError(
        "ninja was not found; `fusegen check`, `explain` and `compile --emit-only` work without it",
        hint="pip install ninja",
    )


def _nvcc_candidates() -> Iterator[Path]:
    for setting in (settings.CUDA_HOME, settings.CUDA_PATH):
        home = setting.value()
        if home:
            yield Path(home) / "bin" / "nvcc"
    on_path = shutil.which("nvcc")
    if on_path:
        yield Path(on_path)
    for folder in nvidia_packages():
        # pip's nvidia-cuda-nvcc lies in site-packages/nvidia/cu13/bin.
        yield from sorted(folder.glob("*/bin/nvcc"), reverse=True)
    yield DEFAULT_CUDA_FOLDER / "bin" / "nvcc"


def nvidia_packages() -> tuple[Path, ...]:
    """The folders in which pip keeps NVIDIA's packages."""
    spec = importlib.util.find_spec("nvidia")
    return tuple(map(Path, spec.submodule_search_locations or ())) if spec else ()


def _named_by(setting: settings.Setting, text: str) -> Path:
    found = shutil.which(str(Path(text).expanduser()))
    if found:
        return Path(found).absolute()
    raise ToolchainError(
        f"{setting.name} is '{text}', which is not a program that can be run",
        hint=f"correct {setting.name}, or unset it",
    )


def _compiler(path: Path) -> Compiler:
    return Compiler(path, _version_text(path))


@functools.cache
def _version_text(path: Path) -> str:
    """All that `path --version` prints; asked once a process, for a cached load takes less."""
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        answer = subprocess.run(
            [path, "--version"], env=environment, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise ToolchainError(
            f"{path} was found but does not run: {_reason(error)}",
            hint=f"repair it, or name another with {settings.NVCC.name} or {settings.CXX.name}",
        ) from error
    return answer.stdout.strip()


def _reason(error: OSError | subprocess.CalledProcessError) -> str:
    """Why a compiler did not tell its version: what it said itself, if anything."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    said = (error.stderr or error.stdout).strip().partition("\n")[0]
    return f"--version ended with status {error.returncode}" + (f" ({said})" if said else "")
