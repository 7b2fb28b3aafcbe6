"""The bindings' header is compiled once, and again when anything in it changes."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

from fusegen import resources
from fusegen.runtime.builder import build
from fusegen.runtime.compiled_header import HEADER, compiled_header
from fusegen.runtime.request import BuildRequest, Target
from fusegen.runtime.toolchain import find_toolchain
from tests.runtime.adder import adder
from tests.runtime.conftest import WatchedCompiler


def with_header(text: str | None = None) -> BuildRequest:
    """The adder, with the header that generated bindings have."""
    plain = adder()
    text = text or resources.include_files()["fusegen/binding.h"]
    return dataclasses.replace(plain, sources={**plain.sources, HEADER: text})


def test_made_once(cache_folder: Path, watched_compiler: WatchedCompiler) -> None:
    toolchain = find_toolchain(Target.EMULATE)
    folder = compiled_header(with_header(), toolchain)
    assert folder is not None and (folder / "fusegen" / "binding.h.gch").is_file()
    assert compiled_header(with_header(), toolchain) == folder
    assert len(watched_compiler.calls) == 1


def test_another_text_is_another_entry(cache_folder: Path) -> None:
    toolchain = find_toolchain(Target.EMULATE)
    first, second = "#pragma once\nint one();\n", "#pragma once\nint two();\n"
    folders = {compiled_header(with_header(text), toolchain) for text in (first, second)}
    assert len(folders) == 2


def test_only_emulated_bindings_that_include_it_have_one(cache_folder: Path) -> None:
    toolchain = find_toolchain(Target.EMULATE)
    assert compiled_header(adder(), toolchain) is None
    cuda = dataclasses.replace(with_header(), target=Target.CUDA, architectures=("sm_90",))
    assert compiled_header(cuda, toolchain) is None


def test_the_binding_takes_it(cache_folder: Path, tmp_path: Path) -> None:
    """g++ leaves a compiled header aside without a word if its options differ: here it must not."""
    toolchain = find_toolchain(Target.EMULATE)
    request = with_header()
    including = {**request.sources, "taking.cpp": f'#include "{HEADER.partition("/")[2]}"\n'}
    request = dataclasses.replace(request, sources=including)
    header = compiled_header(request, toolchain)
    build(request, tmp_path, toolchain, header)
    log = (tmp_path / "build.log").read_text().splitlines()
    (command,) = [line for line in log if " -c taking.cpp" in line]
    opened = subprocess.run(
        f"{command} -H -Winvalid-pch", shell=True, cwd=tmp_path, capture_output=True, text=True
    )
    assert opened.returncode == 0
    assert opened.stderr.startswith(f"! {header}"), opened.stderr  # `!` marks one that is used
