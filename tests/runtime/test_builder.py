"""Building in a folder: spaces in paths, a hidden ninja, both targets, no fusegen."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fusegen.runtime.builder import build, emit
from fusegen.runtime.errors import BuildError
from fusegen.runtime.request import Target
from fusegen.runtime.toolchain import Toolchain, find_ninja, find_toolchain
from fusegen.runtime.torch_install import read_install
from tests.runtime.adder import adder
from tests.runtime.conftest import WatchedCompiler

CUDA_ADDER = adder(Target.CUDA, architectures=("sm_80", "sm_90a"))


def test_emit_needs_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    emit([CUDA_ADDER], tmp_path / "out")
    written = {
        path.relative_to(tmp_path / "out").as_posix()
        for path in (tmp_path / "out").rglob("*")
        if path.is_file()
    }
    assert written == {*CUDA_ADDER.sources, "build.ninja", "build.sh"}


def test_emitted_text_is_the_same_everywhere(tmp_path: Path) -> None:
    """A folder kept in a repository must not change with the machine it was written on."""
    emit([CUDA_ADDER], tmp_path)
    text = (tmp_path / "build.ninja").read_text()
    assert str(tmp_path) not in text
    assert str(find_toolchain(Target.EMULATE).torch.include_folder) not in text


def toolchain_with_spaces(target: Target, folder: Path) -> Toolchain:
    """This machine's toolchain, with torch reached through a path that has a space."""
    toolchain = find_toolchain(target)
    link = folder / "site packages" / "torch"
    link.parent.mkdir()
    link.symlink_to(toolchain.torch.include_folder.parent)
    return dataclasses.replace(toolchain, torch=read_install(link))


def test_spaces_in_every_path(tmp_path: Path, watched_compiler: WatchedCompiler) -> None:
    """The build folder, the compiler and torch all lie in folders with a space in their names."""
    toolchain = toolchain_with_spaces(Target.EMULATE, tmp_path)
    assert toolchain.cxx.path == watched_compiler.path
    module = build(adder(), tmp_path / "build folder", toolchain)
    assert module == tmp_path / "build folder" / "adder.so"
    assert module.is_file()


def test_ninja_need_not_be_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_compiler = tmp_path / "bin"
    only_compiler.mkdir()
    for tool in ("g++", "as", "ld", "sh"):
        found = shutil.which(tool)
        assert found is not None
        (only_compiler / tool).symlink_to(found)
    monkeypatch.setenv("PATH", str(only_compiler))
    assert shutil.which("ninja") is None
    assert build(adder(), tmp_path / "build").is_file()


def test_warnings_are_none(tmp_path: Path) -> None:
    build(adder(), tmp_path)
    assert "warning" not in (tmp_path / "build.log").read_text()


@pytest.mark.nvcc
def test_cuda_build(tmp_path: Path) -> None:
    module = build(CUDA_ADDER, tmp_path / "build folder")
    needed = subprocess.run(
        ["readelf", "--dynamic", module], capture_output=True, text=True, check=True
    ).stdout
    assert "libtorch_cpu.so" in needed
    for absent in ("libpython", "libcudart", "libcuda.so", "libtorch_python", "libtorch_cuda"):
        assert absent not in needed
    assert "warning" not in (module.parent / "build.log").read_text()


@pytest.mark.nvcc
def test_cuda_build_with_spaces_in_every_path(
    tmp_path: Path, watched_compiler: WatchedCompiler
) -> None:
    toolchain = toolchain_with_spaces(Target.CUDA, tmp_path)
    assert build(CUDA_ADDER, tmp_path / "build folder", toolchain).is_file()
    assert watched_compiler.calls


@pytest.mark.nvcc
def test_unknown_architecture_names_cause_and_mend(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="compute_999") as caught:
        build(adder(Target.CUDA, architectures=("sm_999",)), tmp_path)
    assert "--arch" in (caught.value.hint or "")


@pytest.mark.nvcc
def test_script_builds_without_fusegen(tmp_path: Path) -> None:
    """Only a shell, nvcc, g++, ninja and a Python with torch; started from another folder."""
    emit([CUDA_ADDER], tmp_path / "a folder")
    search = f"{find_ninja().parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        [tmp_path / "a folder" / "build.sh"],
        cwd=tmp_path,
        env={**os.environ, "PATH": search, "PYTHON": sys.executable},
        check=True,
        capture_output=True,
    )
    assert (tmp_path / "a folder" / "adder.so").is_file()
