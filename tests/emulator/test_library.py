"""The Python side of the runtime library: what it refuses, and the checker's book of writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fusegen.emulator import EmulatorRuntime, load_runtime
from fusegen.errors import FusegenError
from tests.emulator.kernel_library import LoadKernel, expose


def test_a_file_that_is_no_library_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runtime.so"
    path.write_text("not a library")
    with pytest.raises(FusegenError, match="cannot load the emulator's runtime library"):
        load_runtime(path)


def test_unwritten_needs_exposed_memory(runtime: EmulatorRuntime) -> None:
    array = np.zeros(8, np.float32)
    runtime.configure(check=False)
    expose(runtime, array, initialised=False)
    with pytest.raises(FusegenError, match="does not watch this memory"):
        runtime.first_unwritten(array.ctypes.data, array.nbytes)
    runtime.configure(check=True)
    expose(runtime, array[:4], initialised=True)
    with pytest.raises(FusegenError, match="does not watch this memory"):
        runtime.first_unwritten(array.ctypes.data, array.nbytes)
    runtime.forget_all()
    with pytest.raises(FusegenError, match="does not watch this memory"):
        runtime.first_unwritten(array[:4].ctypes.data, 16)


def test_written_bytes_are_those_that_kernels_wrote(
    runtime: EmulatorRuntime, load_kernel: LoadKernel
) -> None:
    kernel = load_kernel("vectors", check=True)
    x, y = np.zeros(64, np.uint8), np.zeros(96, np.uint8)
    runtime.configure(check=True)
    expose(runtime, x, initialised=True)
    expose(runtime, y, initialised=True)
    assert runtime.first_unwritten(y.ctypes.data, y.nbytes) == 0
    assert kernel(0, x[:51], y, 51) is None  # one byte a thread
    assert runtime.first_unwritten(y.ctypes.data, y.nbytes) == 51
    assert runtime.first_unwritten(y.ctypes.data, 51) is None
    assert runtime.first_unwritten(y.ctypes.data, 0) is None
    expose(runtime, y[:10], initialised=True)  # afresh
    assert runtime.first_unwritten(y.ctypes.data, y.nbytes) == 0


def test_memory_that_was_given_back_may_not_be_read(
    runtime: EmulatorRuntime, load_kernel: LoadKernel
) -> None:
    kernel = load_kernel("vectors", check=True)
    x, y = np.zeros(64, np.uint8), np.zeros(64, np.uint8)
    runtime.configure(check=True)
    expose(runtime, x, initialised=True)
    expose(runtime, y, initialised=False)
    assert kernel(0, x, y, 64) is None
    runtime.forget(x.ctypes.data, x.nbytes)
    fault = kernel(0, x, y, 64)
    assert fault is not None and "read" in fault
    assert runtime.first_unwritten(y.ctypes.data, y.nbytes) is None


def test_overlapping_exposures_join(runtime: EmulatorRuntime, load_kernel: LoadKernel) -> None:
    kernel = load_kernel("vectors", check=True)
    x, y = np.arange(64, dtype=np.uint8), np.zeros(64, np.uint8)
    runtime.configure(check=True)
    expose(runtime, x[:40], initialised=True)
    expose(runtime, x[30:], initialised=True)
    expose(runtime, y, initialised=False)
    assert kernel(0, x, y, 64) is None
    np.testing.assert_array_equal(y, x)


def test_launched_kernels_are_told_once(runtime: EmulatorRuntime, load_kernel: LoadKernel) -> None:
    kernel = load_kernel("vectors")
    x, y = np.zeros(16, np.uint8), np.zeros(16, np.uint8)
    runtime.take_launched()
    runtime.configure()
    assert kernel(0, x, y, 16) is None
    assert kernel(0, x, y, 16) is None
    (first, second) = runtime.take_launched()
    assert first == second
    assert "copy" in first, first
    assert runtime.take_launched() == []
