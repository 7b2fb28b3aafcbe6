"""Convolutions, transposed ones and the gradients of their inputs, as plain convolutions.

A transposed convolution adds what each element of its input has part in. Read from the result's
side it is a plain convolution with stride 1: the kernel turned by half a turn, its channels
exchanged, and its input spread out by the stride, with zeros between. The gradient of a plain
convolution's input is such a transposed one, and that of a transposed one's is plain.
"""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Node
from fusegen.ir.integers import ONE, Integer
from fusegen.ops.primitive.convolutions import CONVOLUTION, INPUT_GRADIENT
from fusegen.ops.record import LibraryCall
from fusegen.plan.evaluate import Domain
from fusegen.plan.group import NotApplicable
from fusegen.plan.kernels.convolution import ConvolutionAxes
from fusegen.plan.window import Spatial, Window

DTYPES = (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32)
PLACES = ("plane", "row", "column")


@dataclass(frozen=True)
class PlainConvolution:
    """What computes `result`: `data` (N, C, ...) under the `window`, whose weight is `weight`
    (K, C, ...), or where it is `turned` (C, K, ...) with the last tap first along each dim."""

    result: Node
    data: Node
    weight: Node
    window: Window
    turned: bool

    @property
    def channels(self) -> int:
        """The channels of the result."""
        return _known(self.weight.shape[1 if self.turned else 0])

    @property
    def input_channels(self) -> int:
        """The channels of the input."""
        return _known(self.weight.shape[0 if self.turned else 1])

    @property
    def domain(self) -> Domain:
        """A row is a plane of a channel of the result, its columns are the pixels."""
        *leading, height, width = self.result.shape
        rows = ONE
        for size in leading:
            rows *= size
        return Domain.of(rows, height * width)

    @property
    def axes(self) -> ConvolutionAxes:
        """The loop variables."""
        images, _, *planes, height, width = self.result.shape
        names = PLACES[-self.data.type.rank + 2 :]
        sizes = self.data.shape[2:]
        kernel = self.weight.shape[2:]
        return ConvolutionAxes(
            Integer.symbol("image_index", images),
            Integer.symbol("output_channel", self.channels),
            Integer.symbol("input_channel", self.input_channels),
            tuple(Integer.symbol(f"input_{n}", s) for n, s in zip(names, sizes, strict=True)),
            tuple(Integer.symbol(f"kernel_{n}", s) for n, s in zip(names, kernel, strict=True)),
            images,
            self.input_channels,
            sizes,
            self.channels,
            planes[0] if planes else ONE,
            height,
            width,
        )

    def weight_place(self, axes: ConvolutionAxes) -> tuple[Integer, ...]:
        """Where a tap of the kernel stands in the weight."""
        if not self.turned:
            return (axes.channel, axes.input_channel, *axes.kernel_place)
        sizes = self.weight.shape[2:]
        last_first = (s - 1 - p for s, p in zip(sizes, axes.kernel_place, strict=True))
        return (axes.input_channel, axes.channel, *last_first)


def plain_convolution(node: Node) -> PlainConvolution:
    """The plain convolution that computes a library's call; raises NotApplicable where there is
    none, or none that kernels of ours may compute."""
    if node.operation not in (CONVOLUTION, INPUT_GRADIENT):
        raise NotApplicable("it is no convolution")
    attributes = node.attributes
    if node.type.rank not in (4, 5) or attributes.integer("groups") != 1:
        raise NotApplicable("only convolutions over two or three dims in one group have a kernel")
    if node.dtype not in DTYPES:
        raise NotApplicable(f"a convolution of {node.dtype.value} has no kernel of its own")
    is_gradient = node.operation is INPUT_GRADIENT
    if len(node.operands) != 2 + is_gradient:
        raise NotApplicable("a convolution's bias is added apart")
    data, weight = node.operands[0], node.operands[-1]
    if any(size.constant is None for size in weight.shape):
        raise NotApplicable("the weight's size is known only at run time")
    kernel = _spatial(tuple(_known(size) for size in weight.shape[2:]), 1)
    stride, dilation = (_spatial(attributes.integers(n), 1) for n in ("stride", "dilation"))
    padding = _spatial(attributes.integers("padding"), 0)
    scatters = attributes.flag("transposed") is not is_gradient
    if not scatters:
        window = Window(kernel, stride, padding, dilation, (1, 1, 1))
        return PlainConvolution(node, data, weight, window, turned=False)
    around = tuple(
        apart * (size - 1) - pad for apart, size, pad in zip(dilation, kernel, padding, strict=True)
    )
    if min(around) < 0:
        raise NotApplicable("the convolution has results that no pixel has part in")
    window = Window(kernel, (1, 1, 1), _spatial(around, 0), dilation, stride)
    return PlainConvolution(node, data, weight, window, turned=True)


def convolution_of(nodes: tuple[Node, ...]) -> PlainConvolution:
    """The one convolution among nodes; raises NotApplicable where there is not exactly one, or it
    has no kernel of its own."""
    calls = [node for node in nodes if isinstance(node.operation, LibraryCall)]
    if len(calls) != 1:
        raise NotApplicable("the group has not exactly one convolution")
    return plain_convolution(calls[0])


def _known(size: Integer) -> int:
    assert size.constant is not None
    return size.constant


def _spatial(given: tuple[int, ...], missing: int) -> Spatial:
    """Numbers for planes, rows and columns, of which images have the last two."""
    *planes, rows, columns = given
    return (planes[0] if planes else missing, rows, columns)
