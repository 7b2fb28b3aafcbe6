"""Launches: what a device refuses, and what it runs."""

from __future__ import annotations

import numpy as np
import pytest

from fusegen.emulator import EmulatorRuntime
from tests.emulator.kernel_library import LoadKernel, expose


def shape(*sizes: int) -> np.ndarray:
    return np.array(sizes, np.int32)


@pytest.mark.parametrize(
    ("grid", "block", "shared_bytes", "says"),
    [
        ((0, 1, 1), (32, 1, 1), 0, "a grid of (0, 1, 1) blocks"),
        ((1, 0, 1), (32, 1, 1), 0, "a grid of (1, 0, 1) blocks"),
        ((1, 1, 0), (32, 1, 1), 0, "a grid of (1, 1, 0) blocks"),
        ((1, 65536, 1), (32, 1, 1), 0, "y and z at most 65535"),
        ((1, 1, 65536), (32, 1, 1), 0, "y and z at most 65535"),
        ((-(2**31), 1, 1), (32, 1, 1), 0, "x at most 2147483647"),
        ((1, 1, 1), (1025, 1, 1), 0, "a block of (1025, 1, 1) threads; allowed are 1 to 1024"),
        ((1, 1, 1), (64, 32, 1), 0, "a block of (64, 32, 1) threads"),
        ((1, 1, 1), (1, 1, 65), 0, "at most 64 of them in z"),
        ((1, 1, 1), (0, 1, 1), 0, "a block of (0, 1, 1) threads"),
        ((1, 1, 1), (32, 1, 1), 232449, "232449 bytes of dynamic shared memory"),
    ],
)
def test_refused(
    runtime: EmulatorRuntime,
    load_kernel: LoadKernel,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared_bytes: int,
    says: str,
) -> None:
    y = np.full(1, 7.0, np.float32)
    report = load_kernel("launch_limits")(y, shape(*grid), shape(*block), shared_bytes)
    assert report is not None
    assert report.startswith("write_block_index: ")
    assert says in report
    assert y[0] == 7.0


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("grid", [(70000, 1, 1), (3, 5, 7), (1, 65535, 1), (1, 1, 65535)])
def test_every_block_runs_once(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, grid: tuple[int, int, int], seed: int
) -> None:
    blocks = np.prod(grid)
    y = np.full(blocks, -1, np.float32)
    runtime.configure(seed)
    assert load_kernel("launch_limits")(y, shape(*grid), shape(1, 1, 1), 0) is None
    np.testing.assert_array_equal(y, np.arange(blocks) + np.arange(blocks) % 4 + 1)


@pytest.mark.parametrize("block", [(1024, 1, 1), (16, 16, 4), (1, 1, 64), (5, 7, 3)])
def test_blocks_up_to_the_limits(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, block: tuple[int, int, int]
) -> None:
    y = np.zeros(2, np.float32)
    runtime.configure(1, check=True)
    expose(runtime, y, initialised=False)
    kernel = load_kernel("launch_limits", check=True)
    assert kernel(y, shape(2, 1, 1), shape(*block), 232448) is None
    np.testing.assert_array_equal(y, [1.0, 3.0])


def test_static_and_dynamic_shared_memory_count_together(
    runtime: EmulatorRuntime, load_kernel: LoadKernel
) -> None:
    y = np.zeros(1, np.float32)
    kernel = load_kernel("launch_limits")
    static_bytes = 4096 * 4 + 2048 * 8
    room = 227 * 1024 - static_bytes
    assert kernel(y, room, entry="run_static_arrays") is None
    assert y[0] == 4.0
    report = kernel(y, room + 4, entry="run_static_arrays")
    assert report is not None
    assert "too much shared memory: 'second' of 16384 bytes goes over 232448 bytes" in report


def test_an_error_is_told_once(runtime: EmulatorRuntime, load_kernel: LoadKernel) -> None:
    kernel = load_kernel("launch_limits")
    y = np.zeros(1, np.float32)
    report = kernel(y, shape(0, 1, 1), shape(1, 1, 1), 0)
    assert report == runtime.error_text()
    assert kernel(y, shape(1, 1, 1), shape(1, 1, 1), 0) is None


def test_checked_launch_needs_instrumented_kernel(
    runtime: EmulatorRuntime, load_kernel: LoadKernel
) -> None:
    runtime.configure(0, check=True)
    report = load_kernel("launch_limits")(np.zeros(1), shape(1, 1, 1), shape(1, 1, 1), 0)
    assert report is not None
    assert "compiled without its hooks" in report


def test_instrumented_kernel_runs_unchecked_too(
    runtime: EmulatorRuntime, load_kernel: LoadKernel
) -> None:
    y = np.zeros(1, np.float32)
    kernel = load_kernel("launch_limits", check=True)
    assert kernel(y, shape(1, 1, 1), shape(1, 1, 1), 0) is None
    assert y[0] == 1.0
