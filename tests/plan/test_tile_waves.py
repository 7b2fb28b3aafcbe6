"""Which tiles a product of so many rows takes, and which of them get a kernel."""

from __future__ import annotations

import math

import pytest

from fusegen.ir.integers import ONE, ZERO, Integer
from fusegen.plan.cost import H100
from fusegen.plan.kernels.product import ProductAxes
from fusegen.plan.kernels.product_forms import TileKind
from fusegen.plan.tile_waves import (
    LAUNCH,
    WAVES,
    WAVES_OF_PARTS,
    WORTH,
    Extent,
    time,
    wave_time,
    worth_a_kernel,
)

ROWS = Integer.symbol("m", 1 << 40)
WAVES_16_BITS = {TileKind(columns): wave_time(TileKind(columns), 2) for columns in WAVES}


def axes(rows: Integer, columns: int, depths: int, batches: Integer = ONE) -> ProductAxes:
    sizes = (batches, rows, Integer.of(columns), Integer.of(depths))
    return ProductAxes(ZERO, ZERO, ZERO, ZERO, *sizes)


def quickest(row_tiles: int, columns: int, depths: int, processors: int = 132) -> int:
    extent = Extent(row_tiles, columns, depths)
    times = {k.columns: time(extent, k, wave, processors) for k, wave in WAVES_16_BITS.items()}
    return min(times, key=lambda columns: times[columns])


@pytest.mark.parametrize(
    ("row_tiles", "columns", "expected"),
    [
        (1, 4096, 32),  # 128 tiles
        (2, 4096, 64),  # 128 tiles
        (3, 4096, 128),  # 96 tiles
        (4, 4096, 128),  # 128 tiles
        (6, 4096, 192),  # 132 tiles
        (8, 4096, 256),  # 128 tiles
        (32, 4096, 256),  # 512 tiles
        (1, 8192, 64),  # 128 tiles
        (2, 8192, 128),  # 128 tiles
        (3, 8192, 192),  # 129 tiles
        (8, 8192, 256),  # 256 tiles
        (64, 8192, 256),  # 2048 tiles
    ],
)
def test_the_widest_tile_of_which_there_is_almost_one_for_each_multiprocessor(
    row_tiles: int, columns: int, expected: int
) -> None:
    assert quickest(row_tiles, columns, 4096) == expected


def test_a_wave_takes_what_was_measured() -> None:
    """On wide tiles in README.md, to a tenth: bfloat16, 16 and 4 waves."""
    wide, wave = TileKind(256), WAVES[256]
    assert time(Extent(64, 8192, 8192), wide, wave, 132) == pytest.approx(1.37e6, rel=0.1)
    assert time(Extent(32, 4096, 4096), wide, wave, 132) == pytest.approx(0.181e6, rel=0.1)


def test_wider_tiles_are_never_slower_for_their_columns() -> None:
    """Else many tiles would take narrow ones, which load more."""
    for depths in (1024, 4096, 65536):
        rates = [(w.fixed + w.per_depth * depths) / c for c, w in sorted(WAVES.items())]
        assert rates == sorted(rates, reverse=True)


def test_operands_of_twice_as_many_bytes_take_twice_as_long() -> None:
    four, two = (wave_time(TileKind(128), itemsize) for itemsize in (4, 2))
    assert four.per_depth == 2 * two.per_depth and four.fixed == two.fixed


def test_parts_share_the_depth_and_meet() -> None:
    whole, halves = (wave_time(TileKind(256, parts), 2) for parts in (1, 2))
    assert halves.per_depth == whole.per_depth / 2 and halves.fixed > whole.fixed
    extent = Extent(5, 4096, 4096)
    assert time(extent, TileKind(256, 2), halves, 132) == 2 * (
        halves.fixed + halves.per_depth * 4096
    )


@pytest.mark.parametrize(
    ("rows", "columns", "depths", "expected"),
    [
        (128, 512, 65536, (64, 4)),  # 63 us on an H200; 111 in two parts, 219 in one
        (512, 512, 4096, (64, 2)),  # 14; 19 in one, 20 in four, whose 32 clusters take two waves
        (512, 512, 65536, (128, 4)),  # 90; 124 on (64, 2), 220 on (64, 1)
        (1024, 1024, 4096, (64, 1)),  # 20; 21 on (128, 2), 29 on (64, 2)
        (1024, 1024, 65536, (128, 2)),  # 224; 246 on (64, 1)
        (256, 2048, 8192, (64, 2)),  # 26; 32 on (64, 1), 40 on (128, 4)
        (512, 4096, 4096, (128, 1)),  # 28; 33 on (256, 2), 35 on (64, 1)
    ],
)
def test_a_depth_is_shared_where_that_was_measured_to_be_quicker(
    rows: int, columns: int, depths: int, expected: tuple[int, int]
) -> None:
    extent = Extent(rows // 128, columns, depths)
    kinds = [*map(TileKind, WAVES), *WAVES_OF_PARTS]
    times = {kind: time(extent, kind, wave_time(kind, 2), 132) for kind in kinds}
    assert min(times, key=lambda kind: times[kind]) == TileKind(*expected)


@pytest.mark.parametrize(
    ("rows", "columns", "depths", "is_shared"),
    [
        (128, 512, 16384, True),  # 17 us on an H200; 22 on (64, 4)
        (512, 512, 65536, True),  # 69; 90 on (128, 4)
        (1024, 1024, 4096, False),  # 25; 20 on (64, 1)
        (1024, 1024, 65536, True),  # 200; 224 on (128, 2)
    ],
)
def test_a_depth_is_shared_through_memory_where_that_was_measured_to_be_quicker(
    rows: int, columns: int, depths: int, is_shared: bool
) -> None:
    extent = Extent(rows // 128, columns, depths)
    kinds = [*map(TileKind, WAVES), *WAVES_OF_PARTS, TileKind(128, is_shared=True)]
    times = {kind: time(extent, kind, wave_time(kind, 2), 132) for kind in kinds}
    assert min(times, key=lambda kind: times[kind]).is_shared == is_shared


def test_a_part_has_some_steps() -> None:
    kind = TileKind(64, 4)
    of_2047, of_2048 = (time(Extent(1, 64, k), kind, wave_time(kind, 2), 132) for k in (2047, 2048))
    assert of_2047 == math.inf and of_2048 < math.inf


@pytest.mark.parametrize(
    ("columns", "depths", "expected"),
    [
        (4096, 4096, (256, 192, 128, 64, 32)),
        (8192, 8192, (256, 192, 128, 64)),
        (128256, 4096, (256,)),  # 501 tiles of 256 columns for the first row
    ],
)
def test_forms_for_any_number_of_rows(columns: int, depths: int, expected: tuple[int, ...]) -> None:
    found = worth_a_kernel(WAVES_16_BITS, axes(ROWS, columns, depths), H100.processors)
    assert tuple(kind.columns for kind in found) == expected


@pytest.mark.parametrize(("rows", "expected"), [(1, 32), (200, 64), (300, 128), (4096, 256)])
def test_a_known_number_of_rows_has_one_form(rows: int, expected: int) -> None:
    known = axes(Integer.of(rows), 4096, 4096)
    assert worth_a_kernel(WAVES_16_BITS, known, H100.processors) == (TileKind(expected),)


def test_batches_count_as_rows() -> None:
    known = axes(Integer.of(128), 4096, 4096, batches=Integer.of(3))
    assert worth_a_kernel(WAVES_16_BITS, known, H100.processors) == (TileKind(128),)


@pytest.mark.parametrize("columns", [768, 4096, 11008, 14336])
def test_what_is_left_out_is_hardly_missed(columns: int) -> None:
    kept = worth_a_kernel(WAVES_16_BITS, axes(ROWS, columns, 4096), H100.processors)
    for row_tiles in range(1, 65):
        times = {
            kind: LAUNCH + time(Extent(row_tiles, columns, 4096), kind, wave, H100.processors)
            for kind, wave in WAVES_16_BITS.items()
        }
        assert min(times[kind] for kind in kept) <= WORTH * min(times.values())
