"""The cache key: every ingredient changes it, and nothing else does."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from fusegen import emulator
from fusegen.runtime import fingerprint
from fusegen.runtime.fingerprint import build_key
from fusegen.runtime.request import BuildRequest, Target, namespace_of
from fusegen.runtime.toolchain import Compiler, Toolchain
from fusegen.runtime.torch_install import TorchInstall

REQUEST = BuildRequest("chain", {"chain.cu": "a", "include/b.cuh": "b"}, Target.EMULATE)
CUDA_REQUEST = dataclasses.replace(REQUEST, target=Target.CUDA, architectures=("sm_90a",))
TOOLCHAIN = Toolchain(
    cxx=Compiler(Path("/usr/bin/g++"), "g++ 12.2.0"),
    nvcc=Compiler(Path("/usr/local/cuda/bin/nvcc"), "Cuda compilation tools, V13.0.88"),
    ninja=Path("/usr/bin/ninja"),
    torch=TorchInstall("2.13.0", None, Path("/torch/include"), Path("/torch/lib")),
)

REQUESTS = {
    "name": dataclasses.replace(REQUEST, name="other"),
    "text of a source": dataclasses.replace(
        REQUEST, sources={"chain.cu": "A", "include/b.cuh": "b"}
    ),
    "text of a header": dataclasses.replace(
        REQUEST, sources={"chain.cu": "a", "include/b.cuh": "B"}
    ),
    "name of a source": dataclasses.replace(
        REQUEST, sources={"other.cu": "a", "include/b.cuh": "b"}
    ),
    "target": CUDA_REQUEST,
    "checker": dataclasses.replace(REQUEST, check=True),
    "architecture": dataclasses.replace(CUDA_REQUEST, architectures=("sm_80",)),
    "more architectures": dataclasses.replace(CUDA_REQUEST, architectures=("sm_90a", "sm_80")),
}

TOOLCHAINS = {
    "compiler's version": dataclasses.replace(
        TOOLCHAIN, cxx=dataclasses.replace(TOOLCHAIN.cxx, version_text="g++ 12.3.0")
    ),
    "compiler's path": dataclasses.replace(
        TOOLCHAIN, cxx=dataclasses.replace(TOOLCHAIN.cxx, path=Path("/opt/bin/g++"))
    ),
    "nvcc's version": dataclasses.replace(
        TOOLCHAIN, nvcc=Compiler(Path("/usr/local/cuda/bin/nvcc"), "V13.1.0")
    ),
    "torch's version": dataclasses.replace(
        TOOLCHAIN, torch=dataclasses.replace(TOOLCHAIN.torch, version="2.14.0")
    ),
    "torch's place": dataclasses.replace(
        TOOLCHAIN, torch=dataclasses.replace(TOOLCHAIN.torch, include_folder=Path("/other"))
    ),
}


@pytest.mark.parametrize("what", REQUESTS)
def test_request_changes_key_and_namespace(what: str) -> None:
    others = [REQUEST, *(request for name, request in REQUESTS.items() if name != what)]
    assert build_key(REQUESTS[what], TOOLCHAIN) not in {build_key(r, TOOLCHAIN) for r in others}
    assert namespace_of(REQUESTS[what]) not in {namespace_of(r) for r in others}


@pytest.mark.parametrize("what", TOOLCHAINS)
def test_toolchain_changes_key(what: str) -> None:
    assert build_key(CUDA_REQUEST, TOOLCHAINS[what]) != build_key(CUDA_REQUEST, TOOLCHAIN)


@pytest.mark.parametrize("variable", fingerprint.COMPILER_VARIABLES)
def test_compiler_variable_changes_key(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(variable, raising=False)
    before = build_key(CUDA_REQUEST, TOOLCHAIN)
    monkeypatch.setenv(variable, "something")
    assert build_key(CUDA_REQUEST, TOOLCHAIN) != before


def test_binding_flags_change_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = build_key(CUDA_REQUEST, TOOLCHAIN)
    monkeypatch.setattr("fusegen.runtime.ninja_file.CUDA_BINDING_FLAGS", "-O1")
    assert build_key(CUDA_REQUEST, TOOLCHAIN) != before


def test_emulator_flags_change_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = build_key(REQUEST, TOOLCHAIN)
    cuda_before = build_key(CUDA_REQUEST, TOOLCHAIN)

    def other_flags(check: bool) -> tuple[str, ...]:
        return ("-O0",)

    monkeypatch.setattr(emulator, "compile_flags", other_flags)
    assert build_key(REQUEST, TOOLCHAIN) != before
    assert build_key(CUDA_REQUEST, TOOLCHAIN) == cuda_before


def change_text(folder: Path) -> None:
    (folder / "include" / "shim.h").write_text("// changed")


def add_file(folder: Path) -> None:
    (folder / "more.cpp").touch()


@pytest.mark.parametrize("change", [change_text, add_file])
def test_emulator_sources_change_key(
    change: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "shim.h").write_text("// shim")
    monkeypatch.setattr(emulator, "source_folder", lambda: tmp_path)
    before = build_key(REQUEST, TOOLCHAIN)
    cuda_before = build_key(CUDA_REQUEST, TOOLCHAIN)
    change(tmp_path)
    assert build_key(REQUEST, TOOLCHAIN) != before
    assert build_key(CUDA_REQUEST, TOOLCHAIN) == cuda_before


def test_order_of_sources_does_not_matter() -> None:
    turned = dataclasses.replace(REQUEST, sources=dict(reversed(REQUEST.sources.items())))
    assert build_key(turned, TOOLCHAIN) == build_key(REQUEST, TOOLCHAIN)
    assert namespace_of(turned) == namespace_of(REQUEST)


def test_namespace_is_an_identifier() -> None:
    assert namespace_of(REQUEST).isidentifier()
