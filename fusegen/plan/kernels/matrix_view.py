"""An operand of a matrix product as matrices in memory."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from fusegen.ir.integers import Integer, Symbol, product
from fusegen.plan.buffers import Buffer
from fusegen.plan.window import Windows


class Major(Enum):
    """Which neighbours of an operand are neighbours in memory; a line is a row of the left operand
    or a column of the right one."""

    DEPTH = "those in depth"
    LINE = "those of neighbouring lines"


@dataclass(frozen=True)
class BatchDim:
    """A dim of `count` matrices that lie `stride` elements apart; `index` tells the matrix at hand
    by the product's batch."""

    index: Integer
    count: Integer
    stride: Integer


@dataclass(frozen=True)
class MatrixView:
    """An operand as matrices in memory: element (line, depth) of one lies at `base + line *
    line_stride + depth * depth_stride`, in elements, and further by `index * stride` for each of
    `batches`, which are none where all batches have the same matrix. They are several where the
    matrices lie apart in more than one way, such as those of the heads of a tensor whose lines have
    all heads.

    A tensor handed in may have any strides. Its dims are then taken in runs, each of which must
    move through memory like one dim; `runs` are the ends of the runs, and the symbol
    `run_stride(i)` stands for the i-th one's stride. Other buffers are contiguous and have no runs.
    `major` is where the neighbours are if the tensor is contiguous.
    """

    buffer: Buffer
    base: Integer
    batches: tuple[BatchDim, ...]
    line_stride: Integer
    depth_stride: Integer
    major: Major
    runs: tuple[int, ...]

    @property
    def inner_stride(self) -> Integer:
        """The stride that must be 1."""
        return self.depth_stride if self.major is Major.DEPTH else self.line_stride

    @property
    def outer_stride(self) -> Integer:
        """The stride from one run of neighbours to the next."""
        return self.line_stride if self.major is Major.DEPTH else self.depth_stride


@dataclass(frozen=True)
class WindowView:
    """An operand whose lines are what a convolution's kernel sees of `image`, or of all images
    one after the other if that is None: one for each pixel of the result, whose sizes are `pixels`.
    `buffer` has images with their channels last, of which `windows` tell the rest."""

    buffer: Buffer
    windows: Windows
    pixels: tuple[Integer, ...]
    image: Integer | None

    @property
    def major(self) -> Major:
        """A tap's channels are neighbours in depth."""
        return Major.DEPTH

    @property
    def batches(self) -> tuple[BatchDim, ...]:
        """The dim of images, if each is a matrix."""
        images, *sizes = self.buffer.shape
        return (BatchDim(self.image, images, product(sizes)),) if self.image is not None else ()


OperandView = MatrixView | WindowView


def run_stride(run: int) -> Symbol:
    """What stands for the stride of a view's i-th run of dims."""
    return Symbol(f"stride of run {run}")
