"""What is made once for all emulated bindings, because it is most of what one costs to build: their
header, compiled ahead, and an empty library to link with in place of torch's, which takes long to
read. The names are looked up in torch's own when the module is loaded.
"""

from __future__ import annotations

from pathlib import Path

from fusegen.runtime.builder import run_ninja
from fusegen.runtime.cache import cached_file
from fusegen.runtime.fingerprint import digest, machine_ingredients
from fusegen.runtime.ninja_file import (
    BUILD_FILE,
    EMULATED_BINDING_FLAGS,
    TORCH_LIBRARY,
    ninja_words,
)
from fusegen.runtime.request import BuildRequest, Target
from fusegen.runtime.toolchain import Toolchain

NAME = "fusegen_binding_header"
HEADER = "include/fusegen/binding.h"


def compiled_header(request: BuildRequest, toolchain: Toolchain) -> Path | None:
    """The folder to look for headers in before all others: `fusegen/binding.h.gch` lies there, and
    beside it what stands for torch's library.

    g++ takes such a file in the header's place if its own version and options are those it was made
    with, and nothing else checks it: the entry's key is of the headers' texts, the flags, the
    compiler and torch. None for CUDA, and for a request that has no such header.
    """
    if request.target is Target.CUDA or HEADER not in request.sources:
        return None
    headers = {name: text for name, text in request.sources.items() if name.endswith(".h")}
    compiled = f"{Path(HEADER).relative_to('include')}.gch"
    text = _build_file(toolchain, compiled)
    key = digest({"headers": headers, "build file": text, **machine_ingredients(toolchain)})

    def make(folder: Path) -> None:
        for name, header in headers.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(header, encoding="utf-8")
        (folder / BUILD_FILE).write_text(text, encoding="utf-8")
        run_ninja(toolchain.ninja, folder, "the bindings' header")

    file = cached_file(NAME, key, compiled, make)
    return file.parents[len(Path(compiled).parts) - 1]


def _build_file(toolchain: Toolchain, compiled: str) -> str:
    cxx = ninja_words([toolchain.cxx.path])
    torch = ninja_words([toolchain.torch.include_folder])
    return (
        "rule compile\n"
        f"  command = {cxx} {EMULATED_BINDING_FLAGS} -Iinclude -isystem {torch} "
        "-x c++-header $in -o $out\n"
        f"build {compiled}: compile {HEADER}\n"
        "rule stand_in\n"
        f"  command = {cxx} -shared -Wl,-soname,{TORCH_LIBRARY} -x c++ /dev/null -o $out\n"
        f"build {TORCH_LIBRARY}: stand_in\n"
    )
