"""Planted faults are reported with their line under every seed; right kernels are clean."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fusegen.emulator import EmulatorRuntime
from tests.emulator.kernel_library import Kernel, LoadKernel, expose, fault_place
from tests.emulator.planted_faults import assert_found_under_every_seed

SEEDS = range(12)

Launch = Callable[[EmulatorRuntime, Kernel], "str | None"]


def with_margins(array: np.ndarray) -> np.ndarray:
    """A copy with memory before and after it, so that a stray write harms nothing."""
    margin = 16
    around = np.full(array.size + 2 * margin, 0, array.dtype)
    inner = around[margin : margin + array.size].reshape(array.shape)
    inner[...] = array
    return inner


def launch_softmax(runtime: EmulatorRuntime, kernel: Kernel) -> str | None:
    x = with_margins(np.random.default_rng(0).normal(size=(1, 200)).astype(np.float32))
    y = with_margins(np.full_like(x, np.nan))
    expose(runtime, x, initialised=True)
    expose(runtime, y, initialised=False)
    return kernel(x, y, *x.shape)


def launch_matmul(runtime: EmulatorRuntime, kernel: Kernel) -> str | None:
    a = np.random.default_rng(0).normal(size=(17, 40)).astype(np.float32)
    b = np.random.default_rng(1).normal(size=(40, 16)).astype(np.float32)
    c = np.zeros((17, 16), np.float32)
    expose(runtime, a, initialised=True)
    expose(runtime, b, initialised=True)
    expose(runtime, c, initialised=False)
    return kernel(a, b, c, 17, 16, 40)


def launch_warp_operations(runtime: EmulatorRuntime, kernel: Kernel) -> str | None:
    y = np.zeros((44, 10), np.int32)
    expose(runtime, y, initialised=False)
    return kernel(y, 44)


def launch_reverse_rows(runtime: EmulatorRuntime, kernel: Kernel) -> str | None:
    x = np.zeros((3, 64), np.float32)
    y = np.zeros_like(x)
    expose(runtime, x, initialised=True)
    expose(runtime, y, initialised=False)
    return kernel(x, y, 3, 64, 256)


def launch_histogram(runtime: EmulatorRuntime, kernel: Kernel) -> str | None:
    x, counts, total = np.zeros(128, np.int32), np.zeros(8, np.int32), np.zeros(1, np.uint64)
    for array in (x, counts, total):
        expose(runtime, array, initialised=True)
    return kernel(x, counts, total, 128, 2)


def launch_block_votes(runtime: EmulatorRuntime, kernel: Kernel) -> str | None:
    x, y = np.zeros((2, 64), np.int32), np.zeros((2, 3), np.int32)
    expose(runtime, x, initialised=True)
    expose(runtime, y, initialised=False)
    return kernel(x, y, 2, 64)


def launch_warp_exchange(runtime: EmulatorRuntime, kernel: Kernel) -> str | None:
    x, y = np.arange(96, dtype=np.uint8), np.zeros(96, np.uint8)
    expose(runtime, x, initialised=True)
    expose(runtime, y, initialised=False)
    return kernel(x, y)


LAUNCHES: dict[str, Launch] = {
    "block_softmax": launch_softmax,
    "tiled_matmul": launch_matmul,
    "warp_operations": launch_warp_operations,
    "reverse_rows": launch_reverse_rows,
    "histogram": launch_histogram,
    "block_votes": launch_block_votes,
    "warp_exchange": launch_warp_exchange,
}

# A read that comes too early is a race with an earlier write, or finds that there was none.
TOO_EARLY = "(race|uninitialised): "

# Kernel, fault, and a pattern that the report must match. The marked line is one of a race's two.
ACCESS_FAULTS = [
    ("block_softmax", "MISSING_BARRIER_AFTER_WRITE", TOO_EARLY),
    ("block_softmax", "MISSING_BARRIER_BEFORE_REUSE", "race: "),
    ("tiled_matmul", "MISSING_BARRIER_AFTER_WRITE", TOO_EARLY),
    ("tiled_matmul", "MISSING_BARRIER_BEFORE_REUSE", "race: "),
    ("warp_exchange", "MISSING_SYNCWARP", TOO_EARLY),
    ("warp_exchange", "SHUFFLE_AS_SYNCWARP", "race: "),
    ("warp_exchange", "NEIGHBOUR_IN_ANOTHER_WARP", TOO_EARLY),
    ("histogram", "PLAIN_UPDATE_IN_BLOCK", "race: "),
    ("histogram", "PLAIN_UPDATE_BETWEEN_BLOCKS", "race between blocks: "),
    ("histogram", "READ_BETWEEN_BLOCKS", "race"),
    ("block_softmax", "SHARED_WRITE_PAST_END", "out of bounds: writes 4 bytes"),
    ("reverse_rows", "SHARED_READ_PAST_END", "out of bounds: reads 4 bytes"),
    ("block_softmax", "GLOBAL_READ_PAST_END", "out of bounds: reads 4 bytes"),
    ("block_softmax", "GLOBAL_WRITE_PAST_END", "out of bounds: writes 4 bytes"),
    ("block_softmax", "GLOBAL_READ_BEFORE_START", "out of bounds: reads 4 bytes"),
    ("block_softmax", "GLOBAL_WRITE_BEFORE_START", "out of bounds: writes 4 bytes"),
    ("tiled_matmul", "UNINITIALISED_SHARED_READ", "uninitialised: "),
    ("block_softmax", "UNINITIALISED_GLOBAL_READ", "uninitialised: "),
]

SYNCHRONISATION_FAULTS = [
    ("warp_operations", "EXITED_LANE", "reads from lane 5, which has exited"),
    ("warp_operations", "ABSENT_LANE", "reads from lane 31, which has exited or lies beyond"),
    ("warp_operations", "MASK_WITHOUT_SELF", "leaves out lane 1"),
    ("warp_operations", "SOURCE_OUTSIDE_MASK", "reads from lane 7, which is not in the mask"),
    ("warp_operations", "DIVERGENT_LANES", "must not diverge"),
    ("block_votes", "DIVERGENT_BARRIER", "must reach the same barrier"),
    ("block_votes", "BARRIER_AFTER_EXIT", "24 threads have returned; 40 wait in __syncthreads"),
    ("block_votes", "DEADLOCK", "deadlock: 32 wait in a shuffle"),
]


@pytest.mark.parametrize("name", LAUNCHES)
@pytest.mark.parametrize("seed", SEEDS)
def test_right_kernel_is_clean(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, name: str, seed: int
) -> None:
    runtime.configure(seed, check=True)
    assert LAUNCHES[name](runtime, load_kernel(name, check=True)) is None


@pytest.mark.parametrize(("name", "fault", "says"), ACCESS_FAULTS + SYNCHRONISATION_FAULTS)
def test_checker_finds_fault_under_every_seed(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, name: str, fault: str, says: str
) -> None:
    assert_found_under_every_seed(
        runtime,
        load_kernel,
        name,
        fault,
        says,
        lambda kernel: LAUNCHES[name](runtime, kernel),
        SEEDS,
    )


@pytest.mark.parametrize(("name", "fault", "says"), SYNCHRONISATION_FAULTS)
def test_synchronisation_faults_need_no_checker(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, name: str, fault: str, says: str
) -> None:
    kernel = load_kernel(name, fault)
    for seed in SEEDS:
        runtime.configure(seed)
        report = LAUNCHES[name](runtime, kernel)
        assert report is not None
        assert re.search(says, report)
        assert fault_place(name, fault) in report


def test_report_names_kernel_block_and_thread(
    runtime: EmulatorRuntime, load_kernel: LoadKernel
) -> None:
    runtime.configure(0, check=True)
    kernel = load_kernel("block_softmax", "GLOBAL_WRITE_PAST_END", check=True)
    place = fault_place("block_softmax", "GLOBAL_WRITE_PAST_END")
    assert launch_softmax(runtime, kernel) == (
        "softmax: block (0, 0, 0), thread (0, 0, 0): out of bounds: writes 4 bytes at "
        f"{place}: byte 800 of 'global memory', 800 bytes"
    )


def test_unwritten_output_is_found(runtime: EmulatorRuntime, load_kernel: LoadKernel) -> None:
    kernel = load_kernel("block_softmax", "UNWRITTEN_OUTPUT", check=True)
    x = np.zeros((3, 200), np.float32)
    y = np.zeros_like(x)
    for seed in SEEDS:
        runtime.configure(seed, check=True)
        runtime.forget_all()
        expose(runtime, x, initialised=True)
        expose(runtime, y, initialised=False)
        assert kernel(x, y, *x.shape) is None
        assert runtime.first_unwritten(y.ctypes.data, y.nbytes) == 199 * 4


@pytest.mark.parametrize("fault", ["MISSING_BARRIER_AFTER_WRITE", "MISSING_BARRIER_BEFORE_REUSE"])
def test_missing_barrier_shows_without_checker_as_wrong_value(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, fault: str
) -> None:
    kernel = load_kernel("block_softmax", fault)
    x = np.random.default_rng(0).normal(size=(8, 200)).astype(np.float32)
    exact = np.exp(x - x.max(axis=1, keepdims=True))
    exact /= exact.sum(axis=1, keepdims=True)
    for seed in SEEDS[1:]:
        runtime.configure(seed)
        y = np.zeros_like(x)
        assert kernel(x, y, *x.shape) is None
        assert not np.allclose(y, exact)


def test_write_outside_shared_array_shows_without_checker(
    runtime: EmulatorRuntime, load_kernel: LoadKernel
) -> None:
    kernel = load_kernel("block_softmax", "SHARED_WRITE_PAST_END")
    report = launch_softmax(runtime, kernel)
    assert report == (
        "softmax: block (0, 0, 0) wrote outside the shared array 'partials' of 16 bytes"
    )


@pytest.mark.parametrize("check", [False, True])
def test_misaligned_vector_access(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, check: bool
) -> None:
    kernel = load_kernel("reverse_rows", check=check)
    x, y = np.zeros((3, 64), np.float32), np.zeros(200, np.float32)[1:]
    runtime.configure(3, check)
    expose(runtime, x, initialised=True)
    expose(runtime, y, initialised=False)
    report = kernel(x, y, 3, 64, 256)
    assert report is not None
    assert "misaligned: an access of 16 bytes" in report
    assert fault_place("reverse_rows", "MISALIGNED") in report


@pytest.mark.parametrize(
    ("choice", "fault", "says"),
    [
        (0, "UNMAPPED_READ", "crashed at"),
        (1, "DIVISION_BY_ZERO", "divides an integer by zero at"),
    ],
)
def test_crash_is_reported_and_the_next_launch_runs(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, choice: int, fault: str, says: str
) -> None:
    kernel = load_kernel("crashes")
    y = np.zeros(1, np.int32)
    for _ in range(3):
        report = kernel(y, 0, choice)
        assert report is not None
        assert f"{says} {fault_place('crashes', fault)}" in report
        y[0] = 0
        assert kernel(y, 0, 2) is None
        assert y[0] == 1


def test_launches_from_several_host_threads_take_turns(
    runtime: EmulatorRuntime, load_kernel: LoadKernel
) -> None:
    kernel = load_kernel("block_softmax", check=True)
    x = np.random.default_rng(0).normal(size=(16, 200)).astype(np.float32)
    results = [np.zeros_like(x) for _ in range(4)]
    runtime.configure(5, check=True)
    expose(runtime, x, initialised=True)
    for y in results:
        expose(runtime, y, initialised=False)
    with ThreadPoolExecutor(max_workers=4) as pool:
        assert list(pool.map(lambda y: kernel(x, y, *x.shape), results)) == [None] * 4
    for y in results:
        np.testing.assert_array_equal(y, results[0])
