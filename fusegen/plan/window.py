"""How a convolution's kernel lies on its input, and what it sees there as a matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fusegen.ir.graph import Operation

Spatial = tuple[int, int, int]


@dataclass(frozen=True)
class Window:
    """How a convolution's kernel lies on its input, each number for planes, rows and columns; an
    image is one plane.

    The kernel sees an element of the input at every `spread`-th place and zeros between them, which
    is what a transposed convolution makes of its stride.
    """

    kernel: Spatial
    stride: Spatial
    padding: Spatial
    dilation: Spatial
    spread: Spatial

    @property
    def taps(self) -> int:
        """How many places of a channel an element of the result reads."""
        return math.prod(self.kernel)

    @property
    def plane_taps(self) -> int:
        """How many of them lie in one plane."""
        return self.kernel[1] * self.kernel[2]

    @property
    def is_spread(self) -> bool:
        """Whether there are zeros between the input's elements."""
        return any(step > 1 for step in self.spread)

    def span(self, dim: int, results: int) -> int:
        """How many places along a dim `results` neighbouring results read, gaps included."""
        return (results - 1) * self.stride[dim] + (self.kernel[dim] - 1) * self.dilation[dim] + 1


@dataclass(frozen=True)
class Windows(Operation):
    """Of images with their channels last, (images, *sizes, channels), what a convolution's kernel
    multiplies in each: (images, taps * channels, *sizes of the result), in which a tap's channels
    are neighbours. Around an image stand zeros. It is read where the images are, as it is many
    times as large. The `window` has no gaps, and `dims` are those of an image.

    Where the kernel is `turned`, its last tap comes first along each dim, and the zeros have no
    part in a result, whatever weight they meet.
    """

    window: Window
    dims: int
    turned: bool

    @property
    def skips_margins(self) -> bool:
        """Whether there are zeros that have no part."""
        return self.turned and any(self.window.padding)

    def along(self, numbers: Spatial) -> tuple[int, ...]:
        """Of numbers for planes, rows and columns, those of the dims that the images have."""
        return numbers[-self.dims :]
