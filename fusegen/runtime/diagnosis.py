"""What this machine can do with fusegen, and the mend for what it cannot: `fusegen doctor`."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from fusegen import settings
from fusegen.runtime.errors import ToolchainError
from fusegen.runtime.gpu import driver_cuda_version, gpus
from fusegen.runtime.toolchain import Compiler, find_cxx, find_ninja, find_nvcc
from fusegen.runtime.torch_install import TorchInstall, find_torch

Found = TypeVar("Found")


@dataclass(frozen=True)
class Finding:
    """One thing looked for: whether it is fine, what was found or is missing, and the mend."""

    name: str
    fine: bool
    detail: str
    mend: str | None = None


@dataclass(frozen=True)
class Ability:
    """One thing a user may want to do on this machine, and whether it is possible."""

    name: str
    possible: bool


@dataclass(frozen=True)
class Diagnosis:
    """All findings and the abilities that follow from them."""

    findings: tuple[Finding, ...]
    abilities: tuple[Ability, ...]


def diagnose() -> Diagnosis:
    """Look at this machine's torch, compilers, GPUs and cache. Imports torch to see the GPUs."""
    torch = _finding("torch", find_torch, _torch_detail)
    cxx = _finding("C++ compiler", find_cxx, _compiler_detail)
    nvcc = _finding("CUDA compiler", find_nvcc, _compiler_detail)
    ninja = _finding("ninja", find_ninja, str)
    gpu = _gpu_finding()
    driver = _driver_finding(nvcc)
    cache = _cache_finding(settings.cache_folder())

    emulate = all(finding.fine for finding in (torch, cxx, ninja, cache))
    build = emulate and nvcc.fine
    abilities = (
        Ability("check, explain and emit sources", True),
        Ability("run kernels in the emulator", emulate),
        Ability("build CUDA modules", build),
        Ability("run CUDA modules", build and gpu.fine and driver.fine),
    )
    return Diagnosis((torch, cxx, nvcc, ninja, gpu, driver, cache), abilities)


def _finding(name: str, find: Callable[[], Found], describe: Callable[[Found], str]) -> Finding:
    try:
        return Finding(name, True, describe(find()))
    except ToolchainError as error:
        return Finding(name, False, error.message, error.hint)


def _torch_detail(torch: TorchInstall) -> str:
    return f"{torch.version} ({f'CUDA {torch.cuda}' if torch.cuda else 'CPU only'})"


def _compiler_detail(compiler: Compiler) -> str:
    return f"{compiler.version} ({compiler.path})"


def _gpu_finding() -> Finding:
    found = gpus()
    if not found:
        return Finding(
            "GPU",
            False,
            "torch sees no CUDA GPU; the emulator (--target emulate) works without one",
            "with an NVIDIA GPU in the machine, install its driver and a CUDA build of torch",
        )
    detail = ", ".join(f"{g.name} ({g.architecture}, {g.memory / 2**30:.0f} GiB)" for g in found)
    return Finding("GPU", True, detail)


def _driver_finding(nvcc: Finding) -> Finding:
    """Whether the driver runs what nvcc builds: it runs any release of its own major or older
    (CUDA's minor version compatibility), whichever release torch was built with."""
    driver = driver_cuda_version()
    if driver is None:
        return Finding(
            "GPU driver", False, "no NVIDIA driver (libcuda.so.1)", "install NVIDIA's driver"
        )
    detail = f"runs CUDA {driver[0]}.{driver[1]}"
    toolkit = nvcc.detail.split(".")[0]
    if nvcc.fine and toolkit.isdecimal() and int(toolkit) > driver[0]:
        return Finding(
            "GPU driver",
            False,
            f"{detail}, but nvcc is of CUDA {toolkit}",
            f"update the driver, or name an nvcc of CUDA {driver[0]} with {settings.NVCC.name}",
        )
    return Finding("GPU driver", True, detail)


def _cache_finding(folder: Path) -> Finding:
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK):
        entries = sum(1 for path in folder.glob("modules/*") if ".partial-" not in path.name)
        return Finding("cache", True, f"{folder} ({entries} entries)")
    return Finding(
        "cache",
        False,
        f"the cache folder {folder} cannot be written",
        f"set {settings.CACHE_DIR.name} to a folder that you can write to",
    )
