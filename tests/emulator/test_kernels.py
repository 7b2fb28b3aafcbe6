"""Right kernels give the right values, in every order of threads, with the checker and without."""

from __future__ import annotations

import numpy as np
import pytest

from fusegen.emulator import EmulatorRuntime
from tests.emulator.kernel_library import LoadKernel, expose

SEEDS = range(12)


@pytest.fixture(params=[False, True], ids=["plain", "checked"])
def check(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def start(
    runtime: EmulatorRuntime, seed: int, check: bool, inputs: list[np.ndarray], output: np.ndarray
) -> None:
    runtime.configure(seed, check)
    runtime.forget_all()
    for array in inputs:
        expose(runtime, array, initialised=True)
    expose(runtime, output, initialised=False)


@pytest.mark.parametrize("seed", SEEDS)
def test_softmax_with_block_reductions(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, seed: int, check: bool
) -> None:
    x = np.random.default_rng(seed).normal(size=(5, 301)).astype(np.float32)
    y = np.full_like(x, np.nan)
    start(runtime, seed, check, [x], y)
    assert load_kernel("block_softmax", check=check)(x, y, *x.shape) is None
    exact = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    exact /= exact.sum(axis=1, keepdims=True)
    # x - maximum is off by half an ulp of up to 8, which exp turns into a relative error of 2^-22;
    # the sum of 301 terms in three levels, exp and the division add a few units of 2^-24.
    np.testing.assert_allclose(y, exact, rtol=2.0**-21)
    if check:
        assert runtime.first_unwritten(y.ctypes.data, y.nbytes) is None


@pytest.mark.parametrize("seed", SEEDS)
def test_tiled_matmul(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, seed: int, check: bool
) -> None:
    random = np.random.default_rng(seed)
    # Small whole numbers: every sum is exact, so the result must be.
    a = random.integers(-9, 10, size=(37, 50)).astype(np.float32)
    b = random.integers(-9, 10, size=(50, 21)).astype(np.float32)
    c = np.full((37, 21), np.nan, np.float32)
    start(runtime, seed, check, [a, b], c)
    assert load_kernel("tiled_matmul", check=check)(a, b, c, 37, 21, 50) is None
    np.testing.assert_array_equal(c, a @ b)


def expected_warp_operations(threads: int) -> np.ndarray:
    rows = []
    for thread in range(threads):
        warp, lane = thread // 32 * 32, thread % 32
        lanes = min(32, threads - warp)
        row = [
            warp + 1,
            thread if lane < 3 else thread - 3,
            thread ^ 1,
            warp + lanes - 1,
            sum(1 << i for i in range(0, lanes, 3)),
            3,
            0,
            1,
            warp,
            thread + 2 if lane + 2 < lanes else thread,
        ]
        rows.append(row)
    return np.array(rows, np.int64).astype(np.uint32).view(np.int32)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("threads", [32, 128, 44])
def test_shuffles_and_votes(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, seed: int, threads: int, check: bool
) -> None:
    y = np.full((threads, 10), -1, np.int32)
    start(runtime, seed, check, [], y)
    assert load_kernel("warp_operations", check=check)(y, threads) is None
    np.testing.assert_array_equal(y, expected_warp_operations(threads))


@pytest.mark.parametrize("columns", [128, 127])
@pytest.mark.parametrize("seed", SEEDS)
def test_dynamic_shared_memory_over_more_than_1000_blocks(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, seed: int, columns: int, check: bool
) -> None:
    x = np.random.default_rng(seed).normal(size=(1025, columns)).astype(np.float32)
    y = np.full_like(x, np.nan)
    start(runtime, seed, check, [x], y)
    kernel = load_kernel("reverse_rows", check=check)
    assert kernel(x, y, *x.shape, columns * 4) is None
    np.testing.assert_array_equal(y, x[:, ::-1])


@pytest.mark.parametrize("seed", SEEDS)
def test_atomics_in_blocks_and_between_them(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, seed: int, check: bool
) -> None:
    x = np.random.default_rng(seed).integers(0, 8, size=600).astype(np.int32)
    counts, total = np.zeros(8, np.int32), np.zeros(1, np.uint64)
    start(runtime, seed, check, [x, counts], total)
    expose(runtime, total, initialised=True)
    assert load_kernel("histogram", check=check)(x, counts, total, 600, 10) is None
    np.testing.assert_array_equal(counts, np.bincount(x, minlength=8))
    assert total[0] == 9


@pytest.mark.parametrize("seed", SEEDS)
def test_block_votes(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, seed: int, check: bool
) -> None:
    x = np.random.default_rng(seed).integers(0, 10, size=(6, 90)).astype(np.int32)
    x[0], x[1] = 9, 0
    y = np.full((6, 3), -1, np.int32)
    start(runtime, seed, check, [x], y)
    assert load_kernel("block_votes", check=check)(x, y, 6, 90) is None
    high = x > 5
    np.testing.assert_array_equal(
        y, np.stack([high.any(axis=1), high.all(axis=1), high.sum(axis=1)], axis=1)
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_bytes_exchanged_within_warps(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, seed: int, check: bool
) -> None:
    x, y = np.arange(96, dtype=np.uint8), np.zeros(96, np.uint8)
    start(runtime, seed, check, [x], y)
    assert load_kernel("warp_exchange", check=check)(x, y) is None
    np.testing.assert_array_equal(y, x ^ 1)


def test_vectors_from_1_to_64_bytes(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, check: bool
) -> None:
    kernel = load_kernel("vectors", check=check)
    for choice in range(7):
        x = np.random.default_rng(choice).integers(0, 2, size=4096).astype(np.uint8)
        y = np.full_like(x, 7)
        start(runtime, 1, check, [x], y)
        assert kernel(choice, x, y, x.nbytes) is None
        np.testing.assert_array_equal(y, x)
