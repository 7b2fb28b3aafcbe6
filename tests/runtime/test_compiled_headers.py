"""The headers that emulated modules include first are compiled once, and again when one changes."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

import pytest

from fusegen import resources
from fusegen.runtime.builder import build
from fusegen.runtime.compiled_headers import (
    BINDING_HEADER,
    KERNEL_HEADER,
    compiled_headers,
)
from fusegen.runtime.ninja_file import TORCH_LIBRARY
from fusegen.runtime.request import BuildRequest, Target
from fusegen.runtime.toolchain import find_toolchain
from tests.runtime.adder import adder
from tests.runtime.conftest import WatchedCompiler


def with_headers(binding: str | None = None) -> BuildRequest:
    """The adder, with the headers that generated modules have."""
    plain = adder()
    found = resources.include_files()
    headers = {
        BINDING_HEADER: binding or found["fusegen/binding.h"],
        KERNEL_HEADER: found["fusegen/device.cuh"],
    }
    return dataclasses.replace(plain, sources={**plain.sources, **headers})


SHORT = "#pragma once\nint one();\n"


def test_made_once(cache_folder: Path, watched_compiler: WatchedCompiler) -> None:
    toolchain = find_toolchain(Target.EMULATE)
    folder = compiled_headers(with_headers(SHORT), toolchain)
    assert folder is not None and all(
        (folder / "fusegen" / f"{header}.gch").is_file() for header in ("binding.h", "device.cuh")
    )
    assert compiled_headers(with_headers(SHORT), toolchain) == folder
    assert len(watched_compiler.calls) == 3  # these, and the library


def test_another_text_is_another_entry(cache_folder: Path) -> None:
    toolchain = find_toolchain(Target.EMULATE)
    texts = (SHORT, SHORT.replace("one", "two"))
    folders = {compiled_headers(with_headers(text), toolchain) for text in texts}
    assert len(folders) == 2


def test_kernels_for_the_checker_have_their_own(cache_folder: Path) -> None:
    toolchain = find_toolchain(Target.EMULATE)
    plain = with_headers(SHORT)
    checked = dataclasses.replace(plain, check=True)
    assert compiled_headers(plain, toolchain) != compiled_headers(checked, toolchain)


def test_only_emulated_modules_that_include_them_have_some(cache_folder: Path) -> None:
    toolchain = find_toolchain(Target.EMULATE)
    assert compiled_headers(adder(), toolchain) is None
    cuda = dataclasses.replace(with_headers(), target=Target.CUDA, architectures=("sm_90",))
    assert compiled_headers(cuda, toolchain) is None


@pytest.mark.parametrize("check", [False, True], ids=["unchecked", "checked"])
def test_kernels_and_bindings_take_them(check: bool, tmp_path: Path) -> None:
    """g++ leaves a compiled header aside without a word if its options differ: here it must not."""
    toolchain = find_toolchain(Target.EMULATE)
    plain = with_headers()
    including = {"taking.cpp": '#include "fusegen/binding.h"\n'}
    request = dataclasses.replace(plain, sources={**plain.sources, **including}, check=check)
    headers = compiled_headers(request, toolchain)
    assert headers is not None
    build(request, tmp_path, toolchain, headers)
    log = (tmp_path / "build.log").read_text().splitlines()
    for source, header in (("taking.cpp", "binding.h"), ("adder.cu", "device.cuh")):
        (command,) = [line for line in log if f" -c {source}" in line]
        opened = subprocess.run(
            f"{command} -H -Winvalid-pch", shell=True, cwd=tmp_path, capture_output=True, text=True
        )
        assert opened.returncode == 0
        used = f"! {headers / 'fusegen' / header}.gch"  # `!` marks one that is used
        assert used in opened.stderr.splitlines(), opened.stderr


def test_modules_name_torchs_library(tmp_path: Path) -> None:
    """As if they had been linked with it, and not with what stands for it."""
    toolchain = find_toolchain(Target.EMULATE)
    headers = compiled_headers(with_headers(), toolchain)
    assert headers is not None
    module = build(with_headers(), tmp_path, toolchain, headers)
    dynamic = subprocess.run(
        ["readelf", "--dynamic", module], capture_output=True, text=True
    ).stdout
    assert f"Shared library: [{TORCH_LIBRARY}]" in dynamic
    log = (tmp_path / "build.log").read_text().splitlines()
    assert str(headers / TORCH_LIBRARY) in log[-1]
