"""How a convolution's kernel lies on its input, and what it sees there as a matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fusegen.ir.graph import Operation
from fusegen.ir.integers import Integer
from fusegen.plan.coordinates import unflatten

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
    times as large. The `window` has no gaps, `dims` are those of an image, and along each the last
    window begins `last` from an image's last element.

    Where the kernel is `turned`, its last tap comes first along each dim, and the zeros have no
    part in a result, whatever weight they meet. One that had gaps is taken apart into `phases`:
    each image has a matrix for each place of a result between two elements of the image, along all
    dims. Of the `taps` of the whole kernel the one at hand is the place, `lag` further, modulo the
    phases, and as many further for each tap of the window; where that is none, zeros stand, too.
    """

    window: Window
    dims: int
    last: Spatial
    turned: bool = False
    phases: Spatial = (1, 1, 1)
    lag: Spatial = (0, 0, 0)
    taps: Spatial = (0, 0, 0)

    def along(self, numbers: Spatial) -> tuple[int, ...]:
        """Of numbers for planes, rows and columns, those of the dims that the images have."""
        return numbers[-self.dims :]

    @property
    def matrices(self) -> int:
        """How many there are for each image."""
        return math.prod(self.phases)

    def shifts(self, matrix: Integer) -> tuple[Integer, ...]:
        """How much further along each dim the windows of that matrix begin."""
        places = zip(self.places(matrix), *map(self.along, (self.lag, self.phases)), strict=True)
        return tuple((place + lag) // count for place, lag, count in places)

    def places(self, matrix: Integer) -> tuple[Integer, ...]:
        """Where between two elements the results of that matrix are."""
        phase = matrix % self.matrices
        return unflatten(phase, tuple(map(Integer.of, self.along(self.phases))))
