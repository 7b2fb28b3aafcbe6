"""Convolutions of few channels on the tensor cores."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.ir.integers import Integer
from fusegen.plan.buffers import Buffer
from fusegen.plan.evaluate import Domain
from fusegen.plan.expressions import Expression, Load
from fusegen.plan.kernels.base import KernelPlan
from fusegen.plan.kernels.stores import StateStore, Store
from fusegen.plan.window import Window


@dataclass(frozen=True)
class Pieces:
    """What the kernel reads at a place of a plane, in pieces of 8 numbers: each has `channels` of
    the input in `planes` neighbouring planes of the kernel; `of_planes` pieces make up all channels
    of these, `count` everything."""

    channels: int
    planes: int
    of_planes: int
    count: int


@dataclass(frozen=True)
class ConvolutionAxes:
    """The loop variables of a convolution, and its sizes.

    `image`, `input_channel` and `input_place` point into the input, `channel`, `input_channel` and
    `kernel_place` into the weight; the result has `height` x `width` pixels in each of `planes`
    planes of `channels` channels. Places are (plane, row, column), or (row, column) of images.
    """

    image: Integer
    channel: Integer
    input_channel: Integer
    input_place: tuple[Integer, ...]
    kernel_place: tuple[Integer, ...]
    images: Integer
    input_channels: int
    input_sizes: tuple[Integer, ...]
    channels: int
    planes: Integer
    height: Integer
    width: Integer


@dataclass(frozen=True)
class PixelTile:
    """The pixels of the result that a block computes at a time: at most `rows` x `columns`.

    Its warps take `warp_pixels` of them together, for `warp_channels` channels of the result.
    `slots` is how many pieces of the input that takes at most. Results that go
    through shared memory lie `stage_pitch` elements from channel to channel there.
    """

    rows: int
    columns: int
    warp_pixels: int
    warp_channels: int
    slots: int
    stage_pitch: int


@dataclass(frozen=True)
class ConvolutionPlan(KernelPlan):
    """A convolution on the tensor cores, and what is done with each element.

    Channels are the rows and pixels of a plane the columns of a matrix product whose depth is what
    an element reads: one of `pieces` at a time for each tap of a plane. float32 numbers are pairs
    of float16 there, and tiles whose range is too wide for that are computed outside the tensor
    cores. A row of `domain` is a plane of a channel of the result, its columns are the pixels.
    `states` are those of reductions over a tile's pixels of each row. What is stored
    `through_shared` memory leaves in longer runs of pixels than a warp holds. `measured` are the
    values that statistics are taken of: each kernel that computes them must find the same bits.
    Where the kernel is `turned`, as in a transposed convolution, places without an element have no
    part in a result; else they are zeros, whatever weight they meet.
    """

    axes: ConvolutionAxes
    window: Window
    pieces: Pieces
    input: Load
    weight: Load
    domain: Domain
    tile: PixelTile
    vector: int
    stores: tuple[Store, ...]
    states: tuple[StateStore, ...]
    measured: tuple[Expression, ...]
    through_shared: bool
    turned: bool

    @property
    def written(self) -> tuple[Buffer, ...]:
        """The buffers it fills."""
        return (*(s.buffer for s in self.stores), *(s.buffer for s in self.states))

    @property
    def values(self) -> tuple[Expression, ...]:
        """What it computes of each element."""
        reduced = (s.reduction.operand for s in self.states)
        return (*(s.value for s in self.stores), *dict.fromkeys(reduced))
