"""Tiles that a loader brings to stages, in bulk or by copies of 16 bytes, rows in either order."""

from __future__ import annotations

import numpy as np
import pytest

from fusegen.emulator import EmulatorRuntime
from tests.emulator.kernel_library import Kernel, LoadKernel, expose
from tests.emulator.planted_faults import SEEDS, assert_found_under_every_seed

LINES, DEPTH = 64, 80  # of a tile
SHAPE = OUTER, HEADS = 2, 3


def read_tiles(
    runtime: EmulatorRuntime, kernel: Kernel, lines: int, depths: int, by_lanes: bool
) -> tuple[str | None, np.ndarray, np.ndarray]:
    """Launch; the report, all tiles, and what they should be: zeros beyond the matrices. Heads lie
    within lines, which are padded to whole 16 bytes."""
    pitch = -(-depths // 8) * 8
    around = np.zeros(OUTER * lines * HEADS * pitch + 8, np.uint16)
    start = -around.ctypes.data % 16 // 2
    source = around[start : start + OUTER * lines * HEADS * pitch]
    source[:] = np.random.default_rng(lines).integers(1, 2**15, size=source.shape)
    matrices = source.reshape(OUTER, lines, HEADS, pitch)[..., :depths].transpose(0, 2, 1, 3)
    tiles = -(-lines // LINES)
    expected = np.zeros((OUTER, HEADS, tiles * LINES, DEPTH), np.uint16)
    expected[:, :, :lines, :depths] = matrices
    target = np.full_like(expected, 7)
    strides = np.array([lines * HEADS * pitch, pitch, HEADS * pitch], np.int64)
    expose(runtime, source, initialised=True)
    expose(runtime, target, initialised=False)
    report = kernel(source, target, strides, int(by_lanes), lines, depths, OUTER, HEADS, 0)
    return report, target, expected


@pytest.mark.parametrize("seed", SEEDS[:3])
@pytest.mark.parametrize("by_lanes", [True, False])
@pytest.mark.parametrize(("lines", "depths"), [(192, 80), (150, 72), (64, 64), (3, 5), (65, 8)])
def test_tiles_whole_and_in_part(
    runtime: EmulatorRuntime,
    load_kernel: LoadKernel,
    lines: int,
    depths: int,
    by_lanes: bool,
    seed: int,
) -> None:
    runtime.configure(seed, check=True)
    kernel = load_kernel("hopper_stages", check=True)
    report, tiles, expected = read_tiles(runtime, kernel, lines, depths, by_lanes)
    assert report is None
    np.testing.assert_array_equal(tiles, expected)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("NOT_AWAITED", "race: reads at .* what a bulk copy wrote|uninitialised: "),
        ("RELEASED_EARLY", "race: "),
    ],
)
def test_faults_of_stages(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, fault: str, says: str
) -> None:
    assert_found_under_every_seed(
        runtime,
        load_kernel,
        "hopper_stages",
        fault,
        says,
        lambda kernel: read_tiles(runtime, kernel, 256, 80, True)[0],
    )


LIMIT = 2**31 - 1  # of a coordinate


@pytest.mark.parametrize(
    ("counts", "strides", "sizes", "by_lanes", "is_described"),
    [
        ((2, 3), (1024, 64, 192), (128, 64), True, True),
        ((2, 3), (0, 0, 64), (128, 64), True, True),  # one matrix for all
        ((1, 1), (5, 3, 64), (128, 64), True, True),  # the strides of one matrix have no say
        ((1, 1), (0, 0, 0), (1, 64), False, True),
        ((2, 1), (1028, 0, 64), (128, 64), False, False),  # not a multiple of 16 bytes
        ((2, 3), (1024, 64, 192), (0, 64), True, False),
        # The last matrix lies just where a coordinate reaches, in units of 8, and one further.
        ((LIMIT, 1), (8, 0, 8), (128, 64), False, True),
        ((LIMIT + 1, 1), (8, 0, 8), (128, 64), False, False),
        ((LIMIT - 127, 1), (8, 0, 8), (128, 64), True, True),
        ((LIMIT - 126, 1), (8, 0, 8), (128, 64), True, False),
    ],
)
def test_matrices_that_bulk_copies_reach(
    load_kernel: LoadKernel,
    counts: tuple[int, ...],
    strides: tuple[int, ...],
    sizes: tuple[int, ...],
    by_lanes: bool,
    is_described: bool,
) -> None:
    kernel = load_kernel("hopper_stages")
    arrays = [np.array(values, np.int64) for values in (counts, strides, sizes)]
    found = kernel(*arrays, int(by_lanes), entry="describes") is not None
    assert found == is_described
