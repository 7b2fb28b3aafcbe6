"""What to build: the sources of one module and what they are built for."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePosixPath

from fusegen.errors import FusegenError


class Target(Enum):
    """Where the kernels run; the value is the name on the command line."""

    CUDA = "cuda"
    EMULATE = "emulate"


@dataclass(frozen=True)
class BuildRequest:
    """The sources of one module and what they are built for.

    name: stem of the library, a C identifier such as `gemm_group_norm_swish_float32`.
    sources: relative file name to text. Every `*.cu` and `*.cpp` becomes an object file; headers
        lie under `include/`, which is on the include path.
    architectures: the GPUs to build for, such as `sm_90a`; at least one for CUDA, none to emulate.
    check: compile the kernels with the emulator's checker; only to emulate.
    autograd: what the Python module tells autograd of the operators and the sources do not say.

    Raises FusegenError for an architecture that is not one, ValueError for other contradictions.
    """

    name: str
    sources: Mapping[str, str]
    target: Target
    architectures: tuple[str, ...] = ()
    check: bool = False
    autograd: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.name):
            raise ValueError(f"'{self.name}' is not a C identifier")
        for source in self.sources:
            parts = PurePosixPath(source).parts
            if not all(re.fullmatch(r"[\w.+-]+", part) and part != ".." for part in parts):
                raise ValueError(f"'{source}' is not a plain relative file name")
        if (self.target is Target.CUDA) != bool(self.architectures):
            raise ValueError("a CUDA build needs architectures, an emulated one has none")
        if self.check and self.target is not Target.EMULATE:
            raise ValueError("the checker belongs to the emulator")
        for architecture in self.architectures:
            validate_architecture(architecture)


def validate_architecture(text: str) -> None:
    """Raise FusegenError unless `text` has the form of a GPU architecture, such as `sm_90a`."""
    if not re.fullmatch(r"sm_\d{2,3}[af]?", text):
        raise FusegenError(
            f"'{text}' is not a GPU architecture",
            hint="write it as nvcc does, for example sm_80, sm_90a or sm_100",
        )


def content_digest(request: BuildRequest) -> str:
    """SHA-256, in hex, over all that `request` says and nothing about this machine."""
    content = {
        "name": request.name,
        "sources": dict(request.sources),
        "target": request.target.value,
        "architectures": request.architectures,
        "check": request.check,
        "autograd": request.autograd,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def namespace_of(request: BuildRequest) -> str:
    """The namespace under torch.ops in which the built module registers its operators.

    It follows from the request alone: different sources never clash in one process, and whoever
    finds the namespace taken may use the operators in it, for they are the same, and so is what
    autograd knows of them.
    """
    return f"fusegen_{content_digest(request)[:12]}"
