"""Which tiles were found quickest on a card: what the planner may be told of it."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.ir.dtypes import DType
from fusegen.ir.integers import ONE
from fusegen.plan.kernels.matrix_view import Major
from fusegen.plan.kernels.product import ProductAxes, TunedRows
from fusegen.plan.kernels.product_forms import TileKind, WgmmaForm

# The most rows of each bucket: powers of two, and in steps of a tile where each tile more counts.
BUCKETS = (16, 64, 128, 256, 384, 512, 640, 768, 896, 1024, 2048, 4096)


@dataclass(frozen=True)
class ProductShape:
    """A product of two matrices of any number of rows: its operands' dtype, the sizes, and which
    neighbours in memory either operand has."""

    dtype: DType
    columns: int
    depths: int
    left: Major
    right: Major

    @staticmethod
    def of(cores: WgmmaForm, axes: ProductAxes) -> ProductShape | None:
        """That of a product on tensor cores; None where more than its rows is open, or it has
        batches."""
        columns, depths = axes.columns.constant, axes.depths.constant
        if columns is None or depths is None or axes.batches != ONE or cores.split:
            return None
        dtype = cores.left.buffer.dtype
        return ProductShape(dtype, columns, depths, cores.left.major, cores.right.major)


@dataclass(frozen=True)
class TunedTile:
    """Of a product of this shape with a number of rows from the bucket up to `most_rows`, this kind
    of tiles was the quickest."""

    shape: ProductShape
    most_rows: int
    kind: TileKind


@dataclass(frozen=True)
class Preferences:
    """What goes before the planner's own figures: tiles that were `tuned`. With `only` all products
    that can have this kind of tiles have that alone: for timing it."""

    tuned: tuple[TunedTile, ...] = ()
    only: TileKind | None = None

    def rows(self, shape: ProductShape | None) -> tuple[TunedRows, ...]:
        """The tuned choices for a shape by rows; neighbours that are alike are taken together."""
        found = {tile.most_rows: tile.kind for tile in self.tuned if tile.shape == shape}
        merged: list[TunedRows] = []
        for least, most in zip((1, *(b + 1 for b in BUCKETS)), BUCKETS, strict=False):
            if most not in found:
                continue
            last = merged[-1] if merged else None
            if last is not None and last.most == least - 1 and last.kind == found[most]:
                least = merged.pop().least
            merged.append(TunedRows(least, most, found[most]))
        return tuple(merged)


# Nothing was tuned.
UNTUNED = Preferences()


def bucket_of(rows: int) -> int | None:
    """The most rows of the bucket that a number of rows is in; None where there is none."""
    return next((most for most in BUCKETS if rows <= most), None)
