"""The GPUs of this machine, asked of torch."""

from __future__ import annotations

from dataclasses import dataclass


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


def architecture_of(major: int, minor: int) -> str:
    """The architecture to compile for on a GPU of this compute capability, such as `sm_90a`.

    9.0 takes the variant with `a`, without which nvcc refuses Hopper's `wgmma`.
    """
    return "sm_90a" if (major, minor) == (9, 0) else f"sm_{major}{minor}"
