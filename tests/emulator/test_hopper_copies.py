"""Bulk copies at a tensor's edges, tensor maps, named barriers, elected lanes, and clusters."""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest

from fusegen.emulator import EmulatorRuntime
from tests.emulator.kernel_library import Kernel, LoadKernel, expose, fault_places
from tests.emulator.planted_faults import SEEDS, assert_found_under_every_seed

TILE = 16


def aligned(shape: tuple[int, int]) -> np.ndarray:
    """Float32 zeros that begin at a multiple of 16 bytes, as tensor maps need them."""
    around = np.zeros(shape[0] * shape[1] + 4, np.float32)
    start = -around.ctypes.data % 16 // 4
    return around[start : start + shape[0] * shape[1]].reshape(shape)


def move_tile(
    runtime: EmulatorRuntime, kernel: Kernel, at: tuple[int, int], to: tuple[int, int]
) -> tuple[str | None, np.ndarray, np.ndarray]:
    """Launch; the report, the result, and what it should be. Places are (row, column)."""
    shape = 20, 24
    source, target = aligned(shape), aligned(shape)
    source[:] = np.random.default_rng(0).normal(size=shape)
    target[:] = 7.0
    expose(runtime, source, initialised=True)
    expose(runtime, target, initialised=True)
    tile = np.zeros((TILE, TILE), np.float32)
    expected = target.copy()
    for row in range(TILE):
        for column in range(TILE):
            y, x = at[0] + row, at[1] + column
            if 0 <= y < shape[0] and 0 <= x < shape[1]:
                tile[row, column] = source[y, x]
    for row in range(TILE):
        for column in range(TILE):
            y, x = to[0] + row, to[1] + column
            if 0 <= y < shape[0] and 0 <= x < shape[1]:
                expected[y, x] = tile[row, column]
    report = kernel(source, target, *shape, at[1], at[0], to[1], to[0], 0)
    return report, target, expected


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("at", [(0, 0), (4, 8), (13, 17), (-3, -5), (100, 0), (0, -16)])
@pytest.mark.parametrize("to", [(0, 0), (4, 8), (9, 21), (100, 0)])
def test_tiles_at_the_edges(
    runtime: EmulatorRuntime,
    load_kernel: LoadKernel,
    at: tuple[int, int],
    to: tuple[int, int],
    seed: int,
) -> None:
    runtime.configure(seed, check=True)
    kernel = load_kernel("hopper_tensor_map", check=True)
    report, target, expected = move_tile(runtime, kernel, at, to)
    assert report is None
    np.testing.assert_array_equal(target, expected)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("OVERWRITTEN_BARRIER", "the barrier has been overwritten"),
        ("MISALIGNED_TILE", "at a multiple of 128 bytes"),
        ("LOAD_NOT_AWAITED", "race: reads at .* what a bulk copy wrote"),
    ],
)
def test_faults_of_copies(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, fault: str, says: str
) -> None:
    assert_found_under_every_seed(
        runtime,
        load_kernel,
        "hopper_tensor_map",
        fault,
        says,
        lambda kernel: move_tile(runtime, kernel, (0, 0), (0, 0))[0],
    )


@pytest.mark.parametrize("to", [(-1, 0), (0, -16)])
def test_a_store_must_not_begin_before_the_tensor(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, to: tuple[int, int]
) -> None:
    report, _, _ = move_tile(runtime, load_kernel("hopper_tensor_map"), (0, 0), to)
    assert report is not None
    assert "a store's must not begin before the tensor" in report
    assert any(place in report for place in fault_places("hopper_tensor_map", "NEGATIVE_STORE"))


# Of a tensor of five dimensions, innermost first: sizes, strides, and the sides of a tile.
SIZES, STRIDES, BOX_SIDES = (12, 2, 4, 4, 3), (1, 12, 96, 24, 384), (8, 2, 3, 2, 2)


def bring_tile(
    runtime: EmulatorRuntime, kernel: Kernel, at: tuple[int, ...]
) -> tuple[str | None, np.ndarray, np.ndarray]:
    """Launch; the report, the tile, and what it should be."""
    source = aligned((32 * 3, 12))
    source[:] = np.random.default_rng(1).normal(size=source.shape)
    tensor = np.lib.stride_tricks.as_strided(
        source, SIZES[::-1], [4 * stride for stride in STRIDES[::-1]]
    )
    target = np.full(BOX_SIDES[::-1], np.nan, np.float32)
    expected = np.zeros(BOX_SIDES[::-1], np.float32)
    for place in np.ndindex(*BOX_SIDES[::-1]):
        inside = tuple(i + start for i, start in zip(place, at[::-1], strict=True))
        if all(0 <= i < size for i, size in zip(inside, SIZES[::-1], strict=True)):
            expected[place] = tensor[inside]
    sizes, strides = np.array(SIZES, np.int64), np.array(STRIDES[1:], np.int64)
    expose(runtime, source, initialised=True)
    expose(runtime, target, initialised=False)
    report = kernel(source, target, sizes, strides, *at, 0, entry="bring")
    return report, target, expected


@pytest.mark.parametrize(
    "at", [(0, 0, 0, 0, 0), (8, 0, 0, 2, 2), (-2, 1, 2, 3, 1), (0, 0, 0, 0, 3)]
)
def test_tiles_of_five_dimensions(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, at: tuple[int, ...]
) -> None:
    runtime.configure(3, check=True)
    report, tile, expected = bring_tile(runtime, load_kernel("hopper_tensor_map", check=True), at)
    assert report is None
    np.testing.assert_array_equal(tile, expected)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("FEWER_DIMENSIONS", "a copy of 3 dimensions by a tensor map of 5"),
        ("FIVE_NOT_AWAITED", "race: reads at .* what a bulk copy wrote|uninitialised: "),
    ],
)
def test_faults_of_copies_of_five_dimensions(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, fault: str, says: str
) -> None:
    assert_found_under_every_seed(
        runtime,
        load_kernel,
        "hopper_tensor_map",
        fault,
        says,
        lambda kernel: bring_tile(runtime, kernel, (0, 0, 0, 0, 0))[0],
    )


NONE, ADDRESS, STRIDE, SIZE, BOX, SWIZZLE = range(6)


@pytest.mark.parametrize(
    ("offset", "arguments", "error"),
    [
        (0, (64, 9, 64, 64, 8, 1), NONE),
        (16, (65, 1, 72, 64, 256, 1), NONE),
        (0, (64, 9, 0, 64, 8, 1), NONE),  # an expanded dimension
        (2, (64, 9, 64, 64, 8, 1), ADDRESS),
        (0, (64, 9, 65, 64, 8, 1), STRIDE),
        (0, (64, 9, -64, 64, 8, 1), STRIDE),
        (0, (0, 9, 64, 64, 8, 1), SIZE),
        (0, (64, 0, 64, 64, 8, 1), SIZE),
        (0, (64, 2**31 - 1, 64, 64, 8, 1), NONE),
        (0, (64, 2**31, 64, 64, 8, 1), SIZE),  # its last rows have no coordinates
        (0, (2**31, 9, 2**31, 64, 8, 1), SIZE),
        (0, (64, 9, 64, 0, 8, 0), BOX),
        (0, (64, 9, 64, 64, 257, 1), BOX),
        (0, (64, 9, 64, 12, 8, 0), BOX),
        (0, (64, 9, 64, 32, 8, 1), SWIZZLE),
        (0, (64, 9, 64, 32, 8, 0), NONE),
    ],
)
def test_tensors_that_a_tensor_map_can_describe(
    load_kernel: LoadKernel, offset: int, arguments: tuple[int, ...], error: int
) -> None:
    encode = ctypes.CDLL(load_kernel("hopper_tensor_map").path).encode
    encode.argtypes = [ctypes.c_void_p, *[ctypes.c_int64] * 3, *[ctypes.c_int] * 3]
    assert encode(1 << 20 | offset, *arguments) == error


ROUNDS, LANES = 3, 32


def exchange(
    runtime: EmulatorRuntime, kernel: Kernel, blocks: int = 4, cluster_blocks: int = 2
) -> tuple[str | None, np.ndarray, np.ndarray, np.ndarray]:
    sums, neighbours = (np.full((blocks, LANES), -1, np.int32) for _ in range(2))
    elected = np.full((blocks, 2), -1, np.int32)
    for array in (sums, neighbours, elected):
        expose(runtime, array, initialised=False)
    report = kernel(sums, neighbours, elected, blocks, cluster_blocks, 0)
    return report, sums, neighbours, elected


@pytest.mark.parametrize("seed", SEEDS)
def test_named_barriers_elected_lanes_and_neighbours(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, seed: int
) -> None:
    runtime.configure(seed, check=True)
    report, sums, neighbours, elected = exchange(runtime, load_kernel("hopper_roles", check=True))
    assert report is None
    blocks, lanes = np.arange(4)[:, None], np.arange(LANES)[None, :]
    np.testing.assert_array_equal(sums, ROUNDS * (100 * blocks + LANES - 1 - lanes) + 3)
    np.testing.assert_array_equal(neighbours, 100 * (blocks ^ 1) + ROUNDS - 1 + lanes)
    np.testing.assert_array_equal(elected, ROUNDS)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("MISSING_TAKEN_BARRIER", "race: |deadlock: "),
        ("MISSING_FILLED_BARRIER", "race: |uninitialised: "),
        ("BARRIER_ZERO", "a barrier of number 0; allowed are 1 to 15"),
        ("PART_OF_A_WARP", "a barrier of 63 threads; it must be whole warps"),
        ("OTHER_NUMBER_OF_THREADS", "meets threads that came for one of|race: |uninitialised: "),
        ("NEVER_FILLED", "deadlock: .*64 wait in a named barrier"),
        ("NEIGHBOUR_READ_EARLY", "race: |uninitialised: "),
        ("BLOCK_ENDS_EARLY", "nothing orders its end|have returned"),
    ],
)
def test_faults_of_roles_and_clusters(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, fault: str, says: str
) -> None:
    kernel = load_kernel("hopper_roles", fault, check=True)
    for seed in SEEDS:
        runtime.forget_all()
        runtime.configure(seed, check=True)
        report, *_ = exchange(runtime, kernel)
        assert report is not None
        assert re.search(says, report), report
        if fault != "OTHER_NUMBER_OF_THREADS":
            assert any(place in report for place in fault_places("hopper_roles", fault)), report


@pytest.mark.parametrize(
    ("blocks", "cluster_blocks", "says"),
    [
        (4, 0, "clusters of 0 blocks"),
        (9, 9, "clusters of 9 blocks"),
        (4, 3, "clusters of 3 blocks in a grid of 4"),
    ],
)
def test_refused_clusters(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, blocks: int, cluster_blocks: int, says: str
) -> None:
    report, *_ = exchange(runtime, load_kernel("hopper_roles"), blocks, cluster_blocks)
    assert report is not None
    assert says in report
