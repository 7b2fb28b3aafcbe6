"""Where torch's headers and libraries lie, found without importing torch (which takes seconds)."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

from fusegen.runtime.errors import ToolchainError

OLDEST_VERSION = (2, 11)
"""The first torch whose stable ABI has all that the binding uses."""


@dataclass(frozen=True)
class TorchInstall:
    """An installed torch: its version, the CUDA release it was built with (None for a CPU build),
    the folder of its headers, and the folder of its libraries."""

    version: str
    cuda: str | None
    include_folder: Path
    library_folder: Path


def find_torch() -> TorchInstall:
    """The torch that `import torch` would load.

    Raises ToolchainError if there is none, if it is too old, or if its headers are missing.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise ToolchainError(
            "torch is not installed; `fusegen check` and `fusegen explain` work without it",
            hint="pip install 'torch>=2.11'",
        )
    return read_install(Path(spec.origin).parent)


def read_install(root: Path) -> TorchInstall:
    """The installation in the package folder `root`; ToolchainError as for `find_torch`."""
    text = (root / "version.py").read_text(encoding="utf-8")
    version = _assigned(text, "__version__") or "0.0"
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers < OLDEST_VERSION:
        raise ToolchainError(
            f"torch {version} is too old: modules need 2.11 or newer",
            hint="pip install --upgrade 'torch>=2.11'",
        )
    install = TorchInstall(version, _assigned(text, "cuda"), root / "include", root / "lib")
    header = install.include_folder / "torch" / "csrc" / "stable" / "library.h"
    if not header.is_file():
        raise ToolchainError(
            f"torch {version} has no C++ headers (no {header})",
            hint="install torch from its official wheels, which carry them",
        )
    return install


def _assigned(text: str, name: str) -> str | None:
    """The string that `name` is set to in torch/version.py; None if it is set to None."""
    match = re.search(rf"^{name}\b[^=\n]*=\s*['\"]([^'\"]+)['\"]", text, re.MULTILINE)
    return match.group(1) if match else None
