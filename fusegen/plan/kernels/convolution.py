"""Two-dimensional convolutions on the tensor cores."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.ir.integers import Integer
from fusegen.plan.buffers import Buffer
from fusegen.plan.evaluate import Domain
from fusegen.plan.expressions import Expression, Load
from fusegen.plan.kernels.base import KernelPlan
from fusegen.plan.kernels.stores import StateStore, Store


@dataclass(frozen=True)
class Window:
    """How a convolution's kernel lies on an image, each number for rows and for columns."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]

    @property
    def taps(self) -> int:
        """How many pixels of a channel an element of the result reads."""
        return self.kernel[0] * self.kernel[1]

    def span(self, dim: int, results: int) -> int:
        """How many input pixels along a dim `results` neighbouring results read, gaps included."""
        return (results - 1) * self.stride[dim] + (self.kernel[dim] - 1) * self.dilation[dim] + 1


@dataclass(frozen=True)
class ConvolutionAxes:
    """The loop variables of a convolution, and its sizes.

    `image`, `input_channel`, `input_row` and `input_column` point into the input, `channel`,
    `input_channel`, `kernel_row` and `kernel_column` into the weight; the result has `height` x
    `width` pixels in each of `channels` channels.
    """

    image: Integer
    input_channel: Integer
    input_row: Integer
    input_column: Integer
    channel: Integer
    kernel_row: Integer
    kernel_column: Integer
    images: Integer
    input_channels: int
    input_height: Integer
    input_width: Integer
    channels: int
    height: Integer
    width: Integer


@dataclass(frozen=True)
class PixelTile:
    """The pixels of the result that a block computes at a time: at most `rows` x `columns`.

    Its warps take `warp_pixels` of them together, for `warp_channels` channels of the result.
    `slots` is how many pixels of the input, 8 channels each, that takes at most. Results that go
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
    """A two-dimensional convolution on the tensor cores, and what is done with each element.

    Channels are the rows and pixels the columns of a matrix product whose depth is what an element
    reads: 8 input channels at a time for each tap. float32 numbers are pairs of float16 there,
    and tiles whose range is too wide for that are computed outside the tensor cores. A row of
    `domain` is a channel of an image of the result, its columns are the pixels. `states` are
    those of reductions over a tile's pixels of each channel. What is stored `through_shared`
    memory leaves in longer runs of pixels than a warp holds. `measured` are the values that
    statistics are taken of: each kernel that computes them must find the same bits.
    """

    axes: ConvolutionAxes
    window: Window
    input: Load
    weight: Load
    domain: Domain
    tile: PixelTile
    vector: int
    stores: tuple[Store, ...]
    states: tuple[StateStore, ...]
    measured: tuple[Expression, ...]
    through_shared: bool

    @property
    def written(self) -> tuple[Buffer, ...]:
        """The buffers it fills."""
        return (*(s.buffer for s in self.stores), *(s.buffer for s in self.states))

    @property
    def values(self) -> tuple[Expression, ...]:
        """What it computes of each element."""
        reduced = (s.reduction.operand for s in self.states)
        return (*(s.value for s in self.stores), *dict.fromkeys(reduced))
