"""The emulator's runtime library: built once per compiler and version of the emulator."""

from __future__ import annotations

from pathlib import Path

from fusegen import emulator
from fusegen.runtime.builder import run_ninja
from fusegen.runtime.cache import cached_file
from fusegen.runtime.fingerprint import digest, emulator_digest, machine_ingredients
from fusegen.runtime.ninja_file import BUILD_FILE, ninja_words
from fusegen.runtime.request import Target
from fusegen.runtime.toolchain import Toolchain, find_toolchain

NAME = "fusegen_emulator"
LIBRARY = f"lib{NAME}.so"


def emulator_library(toolchain: Toolchain | None = None) -> Path:
    """The emulator's runtime library, from the cache or newly built into it.

    Raises ToolchainError, BuildError or CacheError, as `cached_build` does.
    """
    toolchain = toolchain or find_toolchain(Target.EMULATE)
    text = _build_file(toolchain)
    key = digest(
        {
            "build file": text,
            "emulator": emulator_digest(),
            **machine_ingredients(toolchain),
        }
    )

    def make(folder: Path) -> None:
        (folder / BUILD_FILE).write_text(text, encoding="utf-8")
        run_ninja(toolchain.ninja, folder, "the emulator")

    return cached_file(NAME, key, LIBRARY, make)


def _build_file(toolchain: Toolchain) -> str:
    flags = ninja_words(emulator.runtime_compile_flags())
    cxx = ninja_words([toolchain.cxx.path])
    lines = [
        "rule compile",
        f"  command = {cxx} {flags} -c $source -o $out",
        "rule link",
        f"  command = {cxx} -shared -pthread -o $out $in -ldl",
    ]
    objects = []
    for source in emulator.runtime_sources():
        objects.append(f"{Path(source).stem}.o")
        lines += [f"build {objects[-1]}: compile", f"  source = {ninja_words([source])}"]
    lines.append(f"build {LIBRARY}: link {' '.join(objects)}")
    return "\n".join(lines) + "\n"
