"""Reductions that follow each other, over a block and over a cluster: right values and faults."""

from __future__ import annotations

import numpy as np
import pytest

from fusegen.emulator import EmulatorRuntime
from tests.emulator.kernel_library import Kernel, LoadKernel, expose

SEEDS = range(10)
THREADS = 128
# For each entry: the blocks that share a sum.
SHARING = {"run_block": 1, "run_cluster": 8}


def sums(
    runtime: EmulatorRuntime, kernel: Kernel, entry: str
) -> tuple[str | None, np.ndarray, np.ndarray]:
    """Launch two blocks or clusters; the report, the result, and what it should be."""
    blocks = 2 * SHARING[entry]
    x = np.random.default_rng(0).integers(-99, 100, size=blocks * THREADS)
    y = np.full_like(x, -1)
    expose(runtime, x, initialised=True)
    expose(runtime, y, initialised=False)
    report = kernel(x, y, blocks, 0, entry=entry)
    totals = x.reshape(2, -1).sum(axis=1) * (1 + 2 + 3)
    return report, y, np.repeat(totals, x.size // 2)


@pytest.mark.parametrize("entry", SHARING)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_thread_has_each_sum(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, entry: str, seed: int
) -> None:
    runtime.configure(seed, check=True)
    report, y, exact = sums(runtime, load_kernel("repeated_sums", check=True), entry)
    assert report is None
    np.testing.assert_array_equal(y, exact)


@pytest.mark.parametrize("entry", SHARING)
def test_an_array_used_by_two_exchanges_at_once_is_found(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, entry: str
) -> None:
    kernel = load_kernel("repeated_sums", "FIXED_TURN", check=True)
    for seed in SEEDS:
        runtime.forget_all()
        runtime.configure(seed, check=True)
        report, _, _ = sums(runtime, kernel, entry)
        assert report is not None and "race: " in report


@pytest.mark.parametrize("fault", [None, "ROUNDED"])
def test_promoted_sums_keep_what_rounding_loses(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, fault: str | None
) -> None:
    """The whole sum then errs by one rounding, and by those of what is small beside it: a number
    more, and what the totals lacked."""
    x = np.random.default_rng(1).uniform(0, 1, size=(32, 4096)).astype(np.float32)
    y = np.empty(32, np.float32)
    assert load_kernel("promoted_sums", fault)(x, y, x.shape[1]) is None
    exact = x.sum(axis=1, dtype=np.float64)
    is_within = np.abs(y - exact) <= 2.0**-24 * (1 + 2.0**-10) * exact
    assert is_within.all() == (fault is None)
