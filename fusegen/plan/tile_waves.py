"""How long a product takes on tiles of which each multiprocessor works on one at a time, and which
forms are worth a kernel."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fusegen.ir.integers import Integer
from fusegen.plan.kernels.product import ProductAxes
from fusegen.plan.kernels.product_forms import TileKind, WaveTime

# Two warpgroups with 64 rows each.
ROWS = 128
# What a wave of tiles of 128 rows and so many columns takes for operands of 16 bits. Fitted to
# docs/notes/tensor-core-products.md ("One wave of tiles", less the 8 microseconds of every call
# there) and for the widest to the products of many waves in README.md. Where a narrower tile came
# out quicker for its columns than a wider one, in its one wave, it has that one's rate and 2 % for
# what it loads more: in many waves, power decides.
WAVES: Mapping[int, WaveTime] = {
    256: WaveTime(1700.0, 10.6),
    192: WaveTime(1300.0, 8.1),
    128: WaveTime(1300.0, 5.4),
    64: WaveTime(500.0, 3.6),
    32: WaveTime(500.0, 3.2),
}
# The same where two or four blocks share a tile's K, with what the meeting of their sums takes: by
# the products in docs/notes/product-shapes.md ("Tiles of every width", "A depth that is shared").
WAVES_OF_PARTS: Mapping[TileKind, WaveTime] = {
    TileKind(128, 2): WaveTime(3500.0, 3.3),
    TileKind(128, 4): WaveTime(6300.0, 1.4),
    TileKind(64, 2): WaveTime(1500.0, 2.42),
    TileKind(64, 4): WaveTime(3500.0, 1.2),
}
# What it takes to leave all sums of a K that is shared through memory, and for a kernel to add
# them: docs/notes/product-shapes.md ("A depth that is shared through memory").
ADDING = 8000.0
# What it takes to add the sums of a tile's other parts, in nanoseconds, by the tile's columns: a
# guess of two barriers of the cluster, and of its sums at 100 bytes a nanosecond.
MEETING = 1000.0
SUMS_RATE = 100.0
SUM_BYTES = 4
# The bytes of K a step, the widest swizzle.
SWIZZLE_BYTES = 128
# A part of K of fewer steps is done before its sums are stored and read.
LEAST_STEPS = 8
# How many blocks share K through memory, one a multiprocessor of an H100. The number is the same on
# every card, and so are a sum's bits.
SHARING_BLOCKS = 128
# In bytes.
MEASURED_ITEM = 2
# A form is worth a kernel if some product would take so many times as long without it.
WORTH = 1.1
# The time of a launch, in nanoseconds: what differs beside it matters less.
LAUNCH = 2500.0
# Where sizes are not known: up to so many tiles along the rows, and powers of four.
MOST_ROW_TILES = 64
COLUMNS = (64, 256, 1024, 4096, 16384)
DEPTHS = (*COLUMNS, 65536)


@dataclass(frozen=True)
class Extent:
    """A product's size as waves see it: the tiles along its rows, in all batches, its columns and
    its depth."""

    row_tiles: int
    columns: int
    depths: int


def wave_time(kind: TileKind, itemsize: int) -> WaveTime:
    """That of a kind of tiles for operands of `itemsize` bytes, which the tensor cores multiply at
    a rate of bytes."""
    known = WAVES_OF_PARTS.get(kind)
    if kind.is_shared:
        known = replace(WAVES[kind.columns], fixed=WAVES[kind.columns].fixed + ADDING)
    elif known is None:
        whole = WAVES[kind.columns]
        sent = (kind.parts - 1) * ROWS * kind.columns * SUM_BYTES
        meeting = MEETING + sent / SUMS_RATE if kind.parts > 1 else 0.0
        known = WaveTime(whole.fixed + meeting, whole.per_depth / kind.parts)
    per_depth = known.per_depth * itemsize / MEASURED_ITEM
    part = LEAST_STEPS * SWIZZLE_BYTES // itemsize
    least = part if kind.is_shared else least_depths(kind.parts, itemsize)
    return WaveTime(round(known.fixed), round(per_depth, 3), least)


def least_depths(parts: int, itemsize: int) -> int:
    """The smallest K that so many blocks share."""
    return parts * LEAST_STEPS * SWIZZLE_BYTES // itemsize if parts > 1 else 0


def is_measured(kind: TileKind) -> bool:
    """Whether the model may choose these tiles; others are taken only where they were tuned."""
    return kind.parts == 1 or kind in WAVES_OF_PARTS or kind.is_shared


def time(extent: Extent, kind: TileKind, wave: WaveTime, processors: int) -> float:
    """Nanoseconds on this kind of tiles: as `quickest_tile` in `tile_waves.cuh`."""
    tiles = extent.row_tiles * -(-extent.columns // kind.columns)
    if kind.is_shared:
        parts = min(SHARING_BLOCKS // tiles, extent.depths // wave.least_depths)
        return math.inf if parts < 2 else wave.fixed + wave.per_depth * extent.depths / parts
    if extent.depths < wave.least_depths:
        return math.inf
    at_once = clusters_at_once(kind.parts, processors)
    return -(-tiles // at_once) * (wave.fixed + wave.per_depth * extent.depths)


def clusters_at_once(parts: int, processors: int) -> int:
    """How many clusters of so many blocks, one a multiprocessor, run at once. A cluster's blocks
    are of one group of multiprocessors, an H100's mostly of 18, of which clusters of four leave two
    out: 32 of them took two waves on an H200's 132."""
    usable = processors if parts <= 2 else processors * 8 // 9
    return max(1, usable // parts)


def worth_a_kernel(
    waves: Mapping[TileKind, WaveTime], axes: ProductAxes, processors: int
) -> tuple[TileKind, ...]:
    """Those of the tiles, of which the first is the widest, that products of these axes need.

    Left out is, one after the other, what costs the least, as long as no product takes WORTH times
    as long. Of many tiles, wide ones are best by what they load for a product, so those stay
    where there may be many rows.
    """
    extents = tuple(_extents(axes))
    times = [
        {k: time(e, k, wave, processors) + LAUNCH for k, wave in waves.items()} for e in extents
    ]
    kept = [*waves]
    fixed = kept[:1] if axes.rows.constant is None else []
    while len(kept) > 1:
        losses = {k: _loss(times, [o for o in kept if o != k]) for k in kept if k not in fixed}
        if not losses:
            break
        least = min(losses, key=lambda k: (losses[k], k.columns, -k.parts))
        if losses[least] > WORTH:
            break
        kept.remove(least)
    return tuple(kept)


def _loss(times: Sequence[Mapping[TileKind, float]], kept: Sequence[TileKind]) -> float:
    """How many times as long the product takes that needs the other tiles most."""
    return max(min(of[k] for k in kept) / min(of.values()) for of in times)


def _extents(axes: ProductAxes) -> Iterator[Extent]:
    rows, batches = axes.rows.constant, axes.batches.constant
    row_tiles: Iterable[int] = range(1, MOST_ROW_TILES + 1)
    if rows is not None:
        each = -(-rows // ROWS)
        row_tiles = [each * n for n in ([batches] if batches is not None else row_tiles)]
    elif batches is not None:
        row_tiles = [batches * n for n in row_tiles]
    for tiles in row_tiles:
        for columns in _known(axes.columns, COLUMNS):
            for depths in _known(axes.depths, DEPTHS):
                yield Extent(tiles, columns, depths)


def _known(size: Integer, otherwise: tuple[int, ...]) -> tuple[int, ...]:
    return otherwise if size.constant is None else (size.constant,)
