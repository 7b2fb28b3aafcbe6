"""The two ninja files of a build folder.

`build.ninja` follows from the request alone and holds relative paths only, so that a folder can be
kept in a repository. `toolchain.ninja` names this machine's compilers and torch.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from fusegen.runtime.request import BuildRequest, Target, namespace_of
from fusegen.runtime.toolchain import Toolchain

BUILD_FILE = "build.ninja"
TOOLCHAIN_FILE = "toolchain.ninja"
TORCH_LIBRARY = "libtorch_cpu.so"

# Two modules in one process must not see each other's symbols. Weak symbols are hidden with the
# rest, which also keeps g++ from making them unique in the process; a call to an exported function
# goes to the module's own.
HIDDEN = "-fPIC -fvisibility=hidden"
OWN_SYMBOLS = "-Bsymbolic-functions"
NVCC_FLAGS = "-O3 -std=c++17 -lineinfo"
# The stable ABI of torch 2.11: what is built against any later torch loads from 2.11 on.
BINDING_FLAGS = f"-std=c++20 {HIDDEN} -DTORCH_TARGET_VERSION=0x020b000000000000"
# Around an emulated kernel the binding's own time is nothing, that of compiling it is not.
EMULATED_BINDING_FLAGS = f"-O0 {BINDING_FLAGS} -DFUSEGEN_EMULATE"
CUDA_BINDING_FLAGS = f"-O2 {BINDING_FLAGS}"


def library_name(request: BuildRequest) -> str:
    """The file name of the built module."""
    return f"{request.name}.so"


def build_file(requests: Sequence[BuildRequest]) -> str:
    """The text of build.ninja for modules in one folder, all for one target and architectures."""
    first = requests[0]
    assert all((r.target, r.architectures) == (first.target, first.architectures) for r in requests)
    libraries = " ".join(map(library_name, requests))
    parts = [
        f"# Builds {libraries}. The compilers and torch are named in {TOOLCHAIN_FILE}.",
        f"include {TOOLCHAIN_FILE}",
        "",
        _rule("kernel", _kernel_command(first), depfile=True),
        _rule("binding", _binding_command(first), depfile=True),
        _rule("link", _link_command(first), depfile=False),
        *(_module(request) for request in requests),
        f"default {libraries}",
    ]
    return "\n".join(parts) + "\n"


def built_names(folder: Path) -> tuple[str, ...]:
    """The modules that the folder's build file builds, by their names; none without one of ours."""
    file = folder / BUILD_FILE
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    return tuple(re.findall(r"^build (\w+)\.so: link ", text, re.MULTILINE))


def _module(request: BuildRequest) -> str:
    kernels = sorted(name for name in request.sources if name.endswith(".cu"))
    bindings = sorted(name for name in request.sources if name.endswith(".cpp"))
    objects = " ".join(_object(name) for name in (*kernels, *bindings))
    lines = [f"build {_object(name)}: kernel {name}" for name in kernels]
    for name in bindings:
        lines += [
            f"build {_object(name)}: binding {name}",
            f"  namespace = {namespace_of(request)}",
        ]
    lines.append(f"build {library_name(request)}: link {objects}")
    return "\n".join(lines) + "\n"


def toolchain_file(
    toolchain: Toolchain,
    emulator_flags: Sequence[str] = (),
    compiled_headers: Path | None = None,
) -> str:
    """The text of toolchain.ninja: this machine's compilers and torch, quoted for the shell.

    `emulator_flags` are the emulator's flags for kernels, `compiled_headers` the folder with the
    headers compiled ahead and what stands for torch's library; a CUDA build has neither.
    """
    torch_folder = compiled_headers or toolchain.torch.library_folder
    values: dict[str, Sequence[str | Path]] = {
        "cxx": [toolchain.cxx.path],
        "nvcc": [toolchain.nvcc.path] if toolchain.nvcc else [],
        "emulator_flags": emulator_flags,
        "compiled_headers": [f"-I{compiled_headers}"] if compiled_headers else [],
        "torch_include": [toolchain.torch.include_folder],
        "torch_library": [torch_folder / TORCH_LIBRARY],
    }
    return "".join(f"{name} = {ninja_words(words)}\n" for name, words in values.items() if words)


def ninja_words(words: Sequence[str | Path]) -> str:
    """`words` of a shell command as they stand inside a ninja file."""
    return shlex.join(map(str, words)).replace("$", "$$")


def _object(source: str) -> str:
    return str(PurePosixPath(source).with_suffix(".o"))


def _rule(name: str, command: str, depfile: bool) -> str:
    lines = [f"rule {name}", f"  command = {command}"]
    if depfile:
        lines += ["  depfile = $out.d", "  deps = gcc"]
    return "\n".join(lines) + "\n"


def _code(architecture: str) -> str:
    """nvcc's option for a GPU architecture. All devices of sm_90 are those of sm_90a, without whose
    instructions the form for the tensor cores would have no body."""
    exact = "sm_90a" if architecture == "sm_90" else architecture
    return f"-gencode=arch={exact.replace('sm_', 'compute_')},code={exact}"


def _kernel_command(request: BuildRequest) -> str:
    if request.target is Target.EMULATE:
        return "$cxx $emulator_flags $compiled_headers -Iinclude -MD -MF $out.d -c $in -o $out"
    codes = " ".join(dict.fromkeys(map(_code, request.architectures)))
    host_flags = HIDDEN.replace(" ", ",")
    return (
        f"$nvcc -ccbin $cxx {NVCC_FLAGS} {codes} --compiler-options {host_flags} "
        "-Iinclude -MD -MF $out.d -c $in -o $out"
    )


def _binding_command(request: BuildRequest) -> str:
    emulated = request.target is Target.EMULATE
    flags = f"{EMULATED_BINDING_FLAGS} $compiled_headers" if emulated else CUDA_BINDING_FLAGS
    return (
        f"$cxx {flags} -DFUSEGEN_NAMESPACE=$namespace -Iinclude "
        "-isystem $torch_include -MD -MF $out.d -c $in -o $out"
    )


def _link_command(request: BuildRequest) -> str:
    if request.target is Target.EMULATE:
        # The emulator's own symbols are found in the process when the module is loaded, and torch's
        # in its library, which the module names although what stands for it has none of them.
        return f"$cxx -shared -Wl,{OWN_SYMBOLS} -Wl,--no-as-needed -o $out $in $torch_library"
    # nvcc knows where the CUDA runtime lies; linked in statically, none is needed at run time.
    return (
        f"$nvcc -ccbin $cxx -shared -cudart static -Xlinker {OWN_SYMBOLS} -Xlinker -z "
        "-Xlinker defs -Xlinker --exclude-libs -Xlinker ALL -o $out $in $torch_library"
    )
