"""The forms of a matrix product that suit only some devices or shapes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from fusegen.plan.buffers import Buffer
from fusegen.plan.expressions import Load
from fusegen.plan.kernels.matrix_view import MatrixView, OperandView, WindowView
from fusegen.plan.kernels.split_product import Split
from fusegen.plan.kernels.stores import Store

# The rows of a warpgroup's product (PTX ISA, wgmma.mma_async: m64).
WGMMA_ROWS = 64


class Exchange(Enum):
    """How a thread comes to store more neighbouring columns than the pairs that wgmma leaves it."""

    NONE = "it does not"
    BY_COPY = "the copy brings the right operand's lines in another order"
    BY_LANES = "neighbouring lanes exchange their sums"
    OF_RESULTS = "neighbouring lanes exchange what they store"
    THROUGH_SHARED = "what they store goes through shared memory"


@dataclass(frozen=True)
class SharedDepth:
    """How a tile's K is shared out where tiles are few: among no more than `blocks` in all, for
    each of which there are `least_steps` of K at least. Each is `leaving` its sums in memory, a
    result for each part of K, which a kernel of its own adds in the order of K."""

    blocks: int
    least_steps: int
    leaving: Store

    @property
    def sums(self) -> Buffer:
        """Where the sums are left."""
        return self.leaving.buffer


@dataclass(frozen=True)
class TileKind:
    """A way to cover a product: tiles of so many columns, of which each is made by so many blocks
    of a cluster, which have a part of K each, or by as many as find it worth it, through memory, if
    K `is_shared`."""

    columns: int
    parts: int = 1
    is_shared: bool = False


@dataclass(frozen=True)
class WaveTime:
    """What one tile for each multiprocessor takes, in nanoseconds: a part that is always there,
    and one for each of K, of which there must be `least_depths`, for each part of one that is
    shared through memory."""

    fixed: float
    per_depth: float
    least_depths: int = 0


@dataclass(frozen=True)
class WgmmaForm:
    """The form of a product for Hopper's tensor cores: `rows` x `columns` of the result a block,
    `depth` of K a step, with `stages` steps of operands in flight. With `split` the operands are
    float16 parts of those of the product.

    With `fewer_lines` the copies for the last tile bring no more of the left operand's lines than
    there are rows. A tile's K is shared out among `parts` blocks of a cluster, the first of which
    adds the sums of all in their order and goes on with them, or as `shared` tells. `wave` is what
    the launcher chooses among several forms by.

    Each thread of the epilogue holds `neighbours` neighbouring columns of a row at a time, after an
    `exchange` where these are more than 2. With `or_pairs` the number of columns is known at run
    time only: where it is no multiple of `neighbours`, threads go on with the pairs they have.
    The epilogue's loads in `early` are made while the products are.
    """

    rows: int
    columns: int
    depth: int
    stages: int
    neighbours: int
    exchange: Exchange
    left: OperandView
    right: OperandView
    split: Split | None = None
    fewer_lines: bool = False
    wave: WaveTime | None = None
    parts: int = 1
    shared: SharedDepth | None = None
    or_pairs: bool = False
    early: tuple[Load, ...] = ()

    @property
    def is_beside(self) -> bool:
        """Whether each warpgroup has all rows of a tile and half of its columns, instead of the
        other way round."""
        return self.rows == WGMMA_ROWS

    @property
    def skips_margins(self) -> bool:
        """Whether sums may have to be made again without some of an operand's elements, which takes
        all of K."""
        views = (self.left, self.right)
        return any(isinstance(view, WindowView) and view.windows.skips_margins for view in views)

    @property
    def own_columns(self) -> int:
        """How many columns of a tile a warpgroup has."""
        return self.columns // 2 if self.is_beside else self.columns

    @property
    def kind(self) -> TileKind:
        """What tells it from the product's other forms."""
        return TileKind(self.columns, self.parts, self.shared is not None)


@dataclass(frozen=True)
class SkinnyForm:
    """The form of a product for few rows: a block reads `columns` columns of the right operand
    once, over the whole depth. There is one kernel for each of `rows`, the most rows it takes."""

    rows: tuple[int, ...]
    columns: int
    left: MatrixView
    right: MatrixView


@dataclass(frozen=True)
class MmaForm:
    """The form of a product for tensor cores without warpgroup products: `rows` x `columns` of the
    result a block, `depth` of K a step, with `stages` steps of operands in flight."""

    rows: int
    columns: int
    depth: int
    stages: int
    left: MatrixView
    right: MatrixView
