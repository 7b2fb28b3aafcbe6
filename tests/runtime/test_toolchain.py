"""Finding compilers: the order of the places, and one line with the mend for what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusegen.runtime import toolchain
from fusegen.runtime.errors import ToolchainError
from fusegen.runtime.toolchain import Compiler, find_cxx, find_ninja, find_nvcc

VARIABLES = ("FUSEGEN_NVCC", "FUSEGEN_CXX", "CUDA_HOME", "CUDA_PATH")


@pytest.fixture(autouse=True)
def _bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable set, nothing on PATH, no packaged nvcc, no /usr/local/cuda."""
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "path").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(toolchain, "DEFAULT_CUDA_FOLDER", tmp_path / "usr local cuda")
    monkeypatch.setattr(toolchain, "nvidia_packages", lambda: (tmp_path / "nvidia",))


def program(path: Path, says: str) -> Path:
    """A program that prints `says`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


def test_nvcc_places_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the last place to the first, each new one goes before those that are there already."""
    default = program(tmp_path / "usr local cuda" / "bin" / "nvcc", "V12.0.1")
    assert find_nvcc().path == default
    packaged = program(tmp_path / "nvidia" / "cu13" / "bin" / "nvcc", "V13.0.2")
    assert find_nvcc().path == packaged
    on_path = program(tmp_path / "path" / "nvcc", "V12.9.3")
    assert find_nvcc().path == on_path
    by_path_variable = program(tmp_path / "toolkit" / "bin" / "nvcc", "V12.4.4")
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "toolkit"))
    assert find_nvcc().path == by_path_variable
    by_home = program(tmp_path / "a home" / "bin" / "nvcc", "V12.5.5")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "a home"))
    assert find_nvcc().path == by_home
    chosen = program(tmp_path / "my nvcc", "V12.6.6")
    monkeypatch.setenv("FUSEGEN_NVCC", str(chosen))
    assert find_nvcc() == Compiler(chosen, "V12.6.6")


def test_missing_nvcc_says_what_still_works() -> None:
    with pytest.raises(ToolchainError, match=r"emulator .* work without one") as caught:
        find_nvcc()
    assert "FUSEGEN_NVCC" in (caught.value.hint or "")


def test_cuda_home_without_nvcc_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    on_path = program(tmp_path / "path" / "nvcc", "V12.9.3")
    assert find_nvcc().path == on_path


@pytest.mark.parametrize("variable", ["FUSEGEN_NVCC", "FUSEGEN_CXX"])
def test_variable_that_names_nothing(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "/nowhere/compiler")
    find = find_nvcc if variable == "FUSEGEN_NVCC" else find_cxx
    with pytest.raises(ToolchainError, match=f"{variable} is '/nowhere/compiler'"):
        find()


def test_cxx_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ToolchainError, match=r"no C\+\+ compiler"):
        find_cxx()
    clang = program(tmp_path / "path" / "clang++", "clang version 17.0.1")
    assert find_cxx().path == clang
    gcc = program(tmp_path / "path" / "g++", "g++ (Debian 12.2.0-14) 12.2.0")
    assert find_cxx().path == gcc
    older = program(tmp_path / "path" / "g++-11", "g++-11 11.4.0")
    monkeypatch.setenv("FUSEGEN_CXX", "g++-11")
    assert find_cxx().path == older


def test_compiler_that_does_not_run(tmp_path: Path) -> None:
    broken = tmp_path / "path" / "g++"
    broken.write_text("#!/bin/sh\necho no license >&2\nexit 3\n")
    broken.chmod(0o755)
    with pytest.raises(ToolchainError) as raised:
        find_cxx()
    said = "--version ended with status 3 (no license)"
    assert raised.value.message == f"{broken} was found but does not run: {said}"


def test_ninja_of_the_package_before_any_other(tmp_path: Path) -> None:
    import ninja

    program(tmp_path / "path" / "ninja", "1.0")
    assert find_ninja() == Path(ninja.BIN_DIR) / "ninja"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("nvcc: NVIDIA (R) Cuda compiler driver\nrelease 13.0, V13.0.88\n", "13.0.88"),
        ("g++ (Debian 12.2.0-14+deb12u1) 12.2.0\n", "12.2.0"),
        ("clang version 17.0.6 (Fedora)", "17.0.6"),
        ("a compiler", "unknown"),
    ],
)
def test_short_version(text: str, version: str) -> None:
    assert Compiler(Path("compiler"), text).version == version
