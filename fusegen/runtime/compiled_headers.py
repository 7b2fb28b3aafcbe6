"""What is made once for all emulated modules, because it is most of what one costs to build: the
headers that kernels and bindings include first, compiled ahead, and an empty library to link with
in place of torch's, which takes long to read. The names are looked up in torch's own when the
module is loaded.
"""

from __future__ import annotations

from pathlib import Path

from fusegen.runtime.builder import emulator_flags, run_ninja
from fusegen.runtime.cache import cached_file
from fusegen.runtime.fingerprint import digest, emulator_digest, machine_ingredients
from fusegen.runtime.ninja_file import (
    BUILD_FILE,
    EMULATED_BINDING_FLAGS,
    TORCH_LIBRARY,
    ninja_words,
)
from fusegen.runtime.request import BuildRequest, Target
from fusegen.runtime.toolchain import Toolchain

NAME = "fusegen_compiled_headers"
BINDING_HEADER = "include/fusegen/binding.h"
KERNEL_HEADER = "include/fusegen/device.cuh"


def compiled_headers(request: BuildRequest, toolchain: Toolchain) -> Path | None:
    """The folder to look for headers in before all others: `fusegen/binding.h.gch` and
    `fusegen/device.cuh.gch` lie there, and beside them what stands for torch's library.

    g++ takes such a file in the header's place if its own version and options are those it was made
    with, and nothing else checks it: the entry's key is of the headers' texts, the emulator's
    sources, the flags, the compiler and torch. None for CUDA, and for a request without them.
    """
    texts = {name: request.sources.get(name) for name in (BINDING_HEADER, KERNEL_HEADER)}
    if request.target is Target.CUDA or None in texts.values():
        return None
    build_file = _build_file(request, toolchain)
    ingredients = {"headers": texts, "emulator": emulator_digest(), "build file": build_file}
    key = digest({**ingredients, **machine_ingredients(toolchain)})

    def make(folder: Path) -> None:
        for name, text in texts.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(str(text), encoding="utf-8")
        (folder / BUILD_FILE).write_text(build_file, encoding="utf-8")
        run_ninja(toolchain.ninja, folder, "the compiled headers")

    return cached_file(NAME, key, TORCH_LIBRARY, make).parent


def _build_file(request: BuildRequest, toolchain: Toolchain) -> str:
    cxx = ninja_words([toolchain.cxx.path])
    torch = ninja_words([toolchain.torch.include_folder])
    # They come first, as the last language named is the one that counts.
    kernel_flags = ninja_words(emulator_flags(request))
    binding_flags = f"{EMULATED_BINDING_FLAGS} -isystem {torch}"
    return (
        "rule header\n"
        f"  command = {cxx} $flags -Iinclude -x c++-header -c $in -o $out\n"
        f"build {_compiled(BINDING_HEADER)}: header {BINDING_HEADER}\n"
        f"  flags = {binding_flags}\n"
        f"build {_compiled(KERNEL_HEADER)}: header {KERNEL_HEADER}\n"
        f"  flags = {kernel_flags}\n"
        "rule stand_in\n"
        f"  command = {cxx} -shared -Wl,-soname,{TORCH_LIBRARY} -x c++ /dev/null -o $out\n"
        f"build {TORCH_LIBRARY}: stand_in\n"
    )


def _compiled(header: str) -> str:
    return f"{Path(header).relative_to('include')}.gch"
