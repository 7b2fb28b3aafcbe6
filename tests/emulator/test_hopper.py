"""A matrix product by bulk copies, barriers in shared memory and wgmma: right values and faults."""

from __future__ import annotations

import numpy as np
import pytest

from fusegen.emulator import EmulatorRuntime
from tests.emulator.kernel_library import Kernel, LoadKernel, expose
from tests.emulator.planted_faults import SEEDS, assert_found_under_every_seed

SIZES = (200, 264, 136)  # no multiple of a tile's sides


def bfloat16(x: np.ndarray) -> np.ndarray:
    """The upper halves of float32 values that have nothing in the lower ones."""
    bits = x.astype(np.float32).view(np.uint32)
    assert not (bits & 0xFFFF).any()
    return (bits >> 16).astype(np.uint16)


def multiply(
    runtime: EmulatorRuntime,
    kernel: Kernel,
    sizes: tuple[int, int, int] = SIZES,
    entry: str = "run",
    blocks: int = 2,
) -> tuple[str | None, np.ndarray, np.ndarray]:
    """Launch; the report, the result, and what it should be."""
    m, n, k = sizes
    random = np.random.default_rng(m + n + k)
    # Small whole numbers: every sum is exact, so the result must be.
    a = random.integers(-9, 10, size=(m, k))
    b = random.integers(-9, 10, size=(n, k))
    a16, b16 = bfloat16(a), bfloat16(b)
    c = np.full((m, n), np.nan, np.float32)
    expose(runtime, a16, initialised=True)
    expose(runtime, b16, initialised=True)
    expose(runtime, c, initialised=False)
    report = kernel(a16, b16, c, m, n, k, blocks, 0, entry=entry)
    return report, c, (a @ b.T).astype(np.float32)


@pytest.mark.parametrize("entry", ["run", "run_wide", "run_cluster"])
@pytest.mark.parametrize("seed", SEEDS)
def test_product(runtime: EmulatorRuntime, load_kernel: LoadKernel, entry: str, seed: int) -> None:
    runtime.configure(seed, check=True)
    kernel = load_kernel("hopper_product", check=True)
    report, c, exact = multiply(runtime, kernel, entry=entry)
    assert report is None
    np.testing.assert_array_equal(c, exact)
    assert runtime.first_unwritten(c.ctypes.data, c.nbytes) is None


# Fault and a pattern that the report must match.
FAULTS = [
    ("MISSING_MBARRIER_FENCE", "has not called mbarrier_fence_init"),
    ("MISSING_FULL_WAIT", "race: |uninitialised: "),
    ("MISSING_EMPTY_WAIT", "race: writes|already has its 1 arrivals"),
    ("OVERWRITTEN_EARLY", "race: writes at .* what a matrix product"),
    ("MISSING_EMPTY_ARRIVE", "deadlock: .* lacks 2 of 2 arrivals"),
    ("WRONG_PARITY", "deadlock: .* lacks 2 of 2 arrivals"),
    ("TOO_MANY_BYTES", "for which 16 bytes more were announced than came"),
    ("TOO_FEW_BYTES", "for which 16 bytes more came than were announced"),
    ("ARRIVES_TWICE", "already has its 1 arrivals|phase was complete before"),
    ("MISALIGNED_OPERAND", "operand B: an operand must begin in the first row"),
    ("MISSING_WGMMA_FENCE", "a wgmma_fence is missing"),
    ("MISSING_WGMMA_WAIT", "race: writes at .* what a matrix product"),
    ("TOO_MANY_REGISTERS", "waits for ever in setmaxnreg.* 66560 registers and began with 64512"),
    ("MISSING_BARRIER_AFTER_INIT", "the barrier has not been initialised|race: |uninitialised: "),
]


@pytest.mark.parametrize(("fault", "says"), FAULTS)
def test_checker_finds_fault_under_every_seed(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, fault: str, says: str
) -> None:
    assert_found_under_every_seed(
        runtime,
        load_kernel,
        "hopper_product",
        fault,
        says,
        lambda kernel: multiply(runtime, kernel, sizes=(130, 136, 392))[0],
    )


# The same in a cluster.
CLUSTER_FAULTS = [
    ("MISSING_FIRST_CLUSTER_SYNC", "the barrier has not been initialised|race: |uninitialised: "),
    ("MISSING_LAST_CLUSTER_SYNC", "nothing orders its end|threads of block . .* have returned"),
    ("ARRIVES_ONLY_AT_OWN", "race: writes at|already has its 4 arrivals"),
]


@pytest.mark.parametrize(("fault", "says"), CLUSTER_FAULTS)
def test_checker_finds_fault_of_clusters_under_every_seed(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, fault: str, says: str
) -> None:
    assert_found_under_every_seed(
        runtime,
        load_kernel,
        "hopper_product",
        fault,
        says,
        lambda kernel: multiply(runtime, kernel, (130, 136, 392), entry="run_cluster")[0],
    )


def test_missing_wait_shows_without_checker_as_wrong_value(
    runtime: EmulatorRuntime, load_kernel: LoadKernel
) -> None:
    kernel = load_kernel("hopper_product", "MISSING_FULL_WAIT")
    report, c, exact = multiply(runtime, kernel, (130, 136, 64))
    assert report is not None or not np.array_equal(c, exact)
