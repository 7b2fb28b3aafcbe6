"""The emulator's runtime library and the test kernels, built once a session."""

from __future__ import annotations

import functools

import pytest

from fusegen import emulator
from fusegen.emulator import EmulatorRuntime
from tests.emulator.kernel_library import Kernel, LoadKernel, build_kernel, build_runtime


@pytest.fixture(scope="session")
def session_runtime(tmp_path_factory: pytest.TempPathFactory) -> EmulatorRuntime:
    return emulator.load_runtime(build_runtime(tmp_path_factory.mktemp("runtime") / "emulator.so"))


@pytest.fixture(scope="session")
def load_kernel(
    session_runtime: EmulatorRuntime, tmp_path_factory: pytest.TempPathFactory
) -> LoadKernel:
    folder = tmp_path_factory.mktemp("kernels")

    @functools.cache
    def load(name: str, fault: str | None = None, check: bool = False) -> Kernel:
        path = folder / f"{name}-{fault}-{check}.so"
        return Kernel(build_kernel(path, name, fault, check))

    return load


@pytest.fixture
def runtime(session_runtime: EmulatorRuntime) -> EmulatorRuntime:
    """The runtime with its settings and memory as new."""
    session_runtime.configure()
    session_runtime.forget_all()
    return session_runtime
