"""The cache key: a digest over everything that could change what a build gives."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from pathlib import Path

from fusegen import emulator
from fusegen.runtime.builder import emulator_flags
from fusegen.runtime.ninja_file import build_file, toolchain_file
from fusegen.runtime.request import BuildRequest, Target, content_digest
from fusegen.runtime.toolchain import Toolchain

COMPILER_VARIABLES = (
    "NVCC_PREPEND_FLAGS",
    "NVCC_APPEND_FLAGS",
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "LIBRARY_PATH",
)
"""Variables that g++ and nvcc themselves read."""


def build_key(request: BuildRequest, toolchain: Toolchain) -> str:
    """SHA-256, in hex, over the sources, target, architectures, flags, compilers with their
    versions, torch's version and place, the emulator's sources, and the processor's kind."""
    ingredients = {
        "request": content_digest(request),
        "build file": build_file([request]),
        "emulator": emulator_digest() if request.target is Target.EMULATE else None,
        "emulator flags": emulator_flags(request),
        **machine_ingredients(toolchain),
    }
    return digest(ingredients)


def machine_ingredients(toolchain: Toolchain) -> dict[str, object]:
    """What this machine adds to any build's key."""
    return {
        "toolchain": toolchain_file(toolchain),
        "cxx": toolchain.cxx.version_text,
        "nvcc": toolchain.nvcc.version_text if toolchain.nvcc else None,
        "torch": toolchain.torch.version,
        "processor": platform.machine(),
        "variables": {name: os.environ.get(name) for name in COMPILER_VARIABLES},
    }


def emulator_digest() -> str:
    """SHA-256, in hex, over the names and texts of the emulator's C++ files."""
    root = Path(emulator.source_folder())
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return digest({str(path.relative_to(root)): path.read_bytes().hex() for path in files})


def digest(ingredients: dict[str, object]) -> str:
    """SHA-256, in hex, over `ingredients`, which JSON can write."""
    return hashlib.sha256(json.dumps(ingredients, sort_keys=True).encode()).hexdigest()
