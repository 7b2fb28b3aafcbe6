"""The emulator's runtime library, which is the one of the process, and the test kernels, built once
a session."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest

from fusegen.emulator import EmulatorRuntime
from fusegen.runtime.loader import emulator_runtime
from tests.emulator.kernel_library import Kernel, LoadKernel, build_kernel


@pytest.fixture(scope="session")
def load_kernel(tmp_path_factory: pytest.TempPathFactory) -> LoadKernel:
    emulator_runtime()  # kernel libraries find its functions among the process's symbols
    folder = tmp_path_factory.mktemp("kernels")

    @functools.cache
    def load(name: str, fault: str | None = None, check: bool = False) -> Kernel:
        path = folder / f"{name}-{fault}-{check}.so"
        return Kernel(build_kernel(path, name, fault, check))

    return load


def make_as_new(runtime: EmulatorRuntime) -> None:
    runtime.configure()
    runtime.forget_all()


@pytest.fixture
def runtime() -> Iterator[EmulatorRuntime]:
    """The runtime with its settings and memory as new, which is how later tests find it."""
    found = emulator_runtime()
    make_as_new(found)
    yield found
    make_as_new(found)
