"""The GPUs of this machine, asked of torch, and what their driver can run."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from fusegen.errors import FusegenError

PORTABLE_ARCHITECTURES = ("sm_80", "sm_90a", "sm_100")
"""What to build for where no GPU says it: the data-centre GPUs from Ampere to Blackwell."""


@dataclass(frozen=True)
class Gpu:
    """One GPU: its name, the architecture to compile for, and its memory in bytes."""

    name: str
    architecture: str
    memory: int


def gpus() -> tuple[Gpu, ...]:
    """The GPUs that torch sees, in its order; none without torch, without CUDA, or without a GPU.

    Imports torch, which takes seconds.
    """
    try:
        import torch
    except (ImportError, OSError):  # OSError: one of its libraries does not load
        return ()
    if not torch.cuda.is_available():
        return ()
    properties = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return tuple(
        Gpu(found.name, architecture_of(found.major, found.minor), found.total_memory)
        for found in properties
    )


def check_gpu() -> None:
    """FusegenError where there is no GPU to run kernels on. Imports torch."""
    if not gpus():
        raise FusegenError(
            "there is no CUDA GPU here",
            "run in the emulator: --target emulate, or target='emulate' in Python",
        )


def current_card() -> str | None:
    """The name of the GPU that torch uses now, such as `NVIDIA H200`; None where there is none.

    Imports torch, which takes seconds, only where there is a driver.
    """
    if driver_cuda_version() is None or not (found := gpus()):
        return None
    import torch

    return found[torch.cuda.current_device()].name


def architecture_of(major: int, minor: int) -> str:
    """The architecture to compile for on a GPU of this compute capability, such as `sm_90a`.

    9.0 takes the variant with `a`, without which nvcc refuses Hopper's `wgmma`.
    """
    return "sm_90a" if (major, minor) == (9, 0) else f"sm_{major}{minor}"


def default_architectures() -> tuple[str, ...]:
    """What to build for when the user does not say: this machine's GPUs, else the portable ones.

    Imports torch, which takes seconds, only where there is a driver.
    """
    if driver_cuda_version() is None:
        return PORTABLE_ARCHITECTURES
    return tuple(sorted({gpu.architecture for gpu in gpus()})) or PORTABLE_ARCHITECTURES


def driver_cuda_version() -> tuple[int, int] | None:
    """The newest CUDA release that the installed driver runs; None without a driver.

    Asked of the driver itself: `cuDriverGetVersion` gives 1000 x major + 10 x minor.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    version = ctypes.c_int()
    if driver.cuDriverGetVersion(ctypes.byref(version)) != 0:
        return None
    return version.value // 1000, version.value % 1000 // 10
