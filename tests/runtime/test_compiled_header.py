"""The bindings' header is compiled once, and again when anything in it changes."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

from fusegen import resources
from fusegen.runtime.builder import build
from fusegen.runtime.compiled_header import HEADER, compiled_header
from fusegen.runtime.ninja_file import TORCH_LIBRARY
from fusegen.runtime.request import BuildRequest, Target
from fusegen.runtime.toolchain import find_toolchain
from tests.runtime.adder import adder
from tests.runtime.conftest import WatchedCompiler


def with_header(text: str | None = None) -> BuildRequest:
    """The adder, with the header that generated bindings have."""
    plain = adder()
    text = text or resources.include_files()["fusegen/binding.h"]
    return dataclasses.replace(plain, sources={**plain.sources, HEADER: text})


SHORT = "#pragma once\nint one();\n"


def test_made_once(cache_folder: Path, watched_compiler: WatchedCompiler) -> None:
    toolchain = find_toolchain(Target.EMULATE)
    folder = compiled_header(with_header(SHORT), toolchain)
    assert folder is not None and (folder / "fusegen" / "binding.h.gch").is_file()
    assert compiled_header(with_header(SHORT), toolchain) == folder
    assert len(watched_compiler.calls) == 2  # it, and the library


def test_another_text_is_another_entry(cache_folder: Path) -> None:
    toolchain = find_toolchain(Target.EMULATE)
    texts = (SHORT, SHORT.replace("one", "two"))
    folders = {compiled_header(with_header(text), toolchain) for text in texts}
    assert len(folders) == 2


def test_only_emulated_bindings_that_include_it_have_one(cache_folder: Path) -> None:
    toolchain = find_toolchain(Target.EMULATE)
    assert compiled_header(adder(), toolchain) is None
    cuda = dataclasses.replace(with_header(), target=Target.CUDA, architectures=("sm_90",))
    assert compiled_header(cuda, toolchain) is None


def test_the_binding_takes_it(tmp_path: Path) -> None:
    """g++ leaves a compiled header aside without a word if its options differ: here it must not.
    The module asks for torch's library, as if it had been linked with it."""
    toolchain = find_toolchain(Target.EMULATE)
    request = with_header()
    including = {**request.sources, "taking.cpp": f'#include "{HEADER.partition("/")[2]}"\n'}
    request = dataclasses.replace(request, sources=including)
    header = compiled_header(request, toolchain)
    assert header is not None
    module = build(request, tmp_path, toolchain, header)
    dynamic = subprocess.run(
        ["readelf", "--dynamic", module], capture_output=True, text=True
    ).stdout
    assert f"Shared library: [{TORCH_LIBRARY}]" in dynamic
    log = (tmp_path / "build.log").read_text().splitlines()
    assert str(header / TORCH_LIBRARY) in log[-1]
    (command,) = [line for line in log if " -c taking.cpp" in line]
    opened = subprocess.run(
        f"{command} -H -Winvalid-pch", shell=True, cwd=tmp_path, capture_output=True, text=True
    )
    assert opened.returncode == 0
    assert opened.stderr.startswith(f"! {header}"), opened.stderr  # `!` marks one that is used
