"""Products by a warp, asynchronous copies by a thread, and fragments to and from shared memory."""

from __future__ import annotations

import numpy as np
import pytest

from fusegen.emulator import EmulatorRuntime
from tests.emulator.kernel_library import Kernel, LoadKernel, expose, fault_places
from tests.emulator.planted_faults import SEEDS, assert_found_under_every_seed


def multiply(
    runtime: EmulatorRuntime, kernel: Kernel, entry: str = "run"
) -> tuple[str | None, np.ndarray, np.ndarray]:
    """Launch; the report, the result, and what it should be."""
    m, n, k = 70, 131, 104
    random = np.random.default_rng(0)
    # Small whole numbers: every sum is exact, so the result must be.
    a, b = (random.integers(-9, 10, size=(rows, k)).astype(np.float32) for rows in (m, n))
    if entry == "run_float16":
        a16, b16 = a.astype(np.float16), b.astype(np.float16)
    else:
        a16, b16 = ((x.view(np.uint32) >> 16).astype(np.uint16) for x in (a, b))
    c = np.full((m, n), np.nan, np.float32)
    expose(runtime, a16, initialised=True)
    expose(runtime, b16, initialised=True)
    expose(runtime, c, initialised=False)
    return kernel(a16, b16, c, m, n, k, 0, entry=entry), c, a @ b.T


@pytest.mark.parametrize("entry", ["run", "run_float16"])
@pytest.mark.parametrize("seed", SEEDS)
def test_product(runtime: EmulatorRuntime, load_kernel: LoadKernel, entry: str, seed: int) -> None:
    runtime.configure(seed, check=True)
    report, c, exact = multiply(runtime, load_kernel("mma_product", check=True), entry)
    assert report is None
    np.testing.assert_array_equal(c, exact)
    assert runtime.first_unwritten(c.ctypes.data, c.nbytes) is None


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("MISSING_COPY_WAIT", "race: reads at .* what a cp_async wrote"),
        ("MISSING_BARRIER_AFTER_WAIT", "race: reads at .* what a cp_async wrote|uninitialised: "),
        ("MISSING_BARRIER_BEFORE_REUSE", "race: (writes|reads)"),
    ],
)
def test_checker_finds_fault_under_every_seed(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, fault: str, says: str
) -> None:
    assert_found_under_every_seed(
        runtime,
        load_kernel,
        "mma_product",
        fault,
        says,
        lambda kernel: multiply(runtime, kernel)[0],
    )


def test_missing_copy_wait_shows_without_checker_as_wrong_value(
    runtime: EmulatorRuntime, load_kernel: LoadKernel
) -> None:
    report, c, exact = multiply(runtime, load_kernel("mma_product", "MISSING_COPY_WAIT"))
    assert report is None
    assert not np.array_equal(c, exact)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("entry", ["run", "run_transposed"])
def test_fragments_to_and_from_shared_memory(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, entry: str, seed: int
) -> None:
    source = np.random.default_rng(seed).integers(0, 65536, size=(32, 32)).astype(np.uint16)
    target = np.zeros_like(source)
    runtime.configure(seed, check=True)
    expose(runtime, source, initialised=True)
    expose(runtime, target, initialised=False)
    assert load_kernel("hopper_fragments", check=True)(source, target, 0, entry=entry) is None
    np.testing.assert_array_equal(target, source.T if entry == "run_transposed" else source)


def test_misaligned_fragment_row(runtime: EmulatorRuntime, load_kernel: LoadKernel) -> None:
    kernel = load_kernel("hopper_fragments", "MISALIGNED_ROW", check=True)
    source, target = np.zeros((32, 32), np.uint16), np.zeros((32, 32), np.uint16)
    for seed in SEEDS:
        runtime.forget_all()
        runtime.configure(seed, check=True)
        expose(runtime, source, initialised=True)
        expose(runtime, target, initialised=False)
        report = kernel(source, target, 0)
        assert report is not None
        assert "misaligned: an access of 16 bytes" in report
        assert any(p in report for p in fault_places("hopper_fragments", "MISALIGNED_ROW"))
