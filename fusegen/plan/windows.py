"""Convolutions of many channels as matrix products, whose right operand is the input as the kernel
sees it.

The tensor cores' form copies what a step needs of the images by itself, so the matrix never stands
in memory, and the product's epilogues finish a convolution's elements with the channels second, as
PyTorch has them.
"""

from __future__ import annotations

from dataclasses import replace

from fusegen.ir.graph import Attributes, Graph, Node, TensorType
from fusegen.ir.integers import product as product_of
from fusegen.ops import build
from fusegen.ops.construct import call
from fusegen.ops.pointwise.functions import CLONE
from fusegen.ops.primitive.convolutions import CONVOLUTION
from fusegen.passes.rewrite import rewrite
from fusegen.plan.cost import Device, SizeHints
from fusegen.plan.group import NotApplicable
from fusegen.plan.plain_convolution import plain_convolution
from fusegen.plan.tensor_cores import PAIR, STAGES, TENSOR_DTYPES
from fusegen.plan.tile_waves import ROWS, SWIZZLE_BYTES
from fusegen.plan.window import Windows

# What a copy through a window can take, by the number of an image's dims: the widest margin, and
# the farthest tap (CUDA driver API, cuTensorMapEncodeIm2col; PTX ISA, im2col offsets), and the
# longest step along any.
MOST_MARGIN = {2: 128, 3: 16}
MOST_OFFSET = {2: 255, 3: 31}
MOST_STRIDE = 8


def multiply_windows(graph: Graph, device: Device, hints: SizeHints) -> Graph:
    """The graph in which convolutions of 16 bits are products of the weight and their windows,
    where that takes less time than what the library's need beside themselves."""
    copies: dict[Node, Node] = {}

    def with_channels_last(node: Node) -> Node:
        if node not in copies:
            order = (0, *range(2, node.type.rank), 1)
            copies[node] = call(CLONE, (build.permute(node, order),))
        return copies[node]

    def rule(node: Node) -> Node:
        windows = windows_of(node)
        if windows is None or not _pays(node, windows, device, hints):
            return node
        data, weight = map(with_channels_last, node.operands)
        return _product(node, windows, data, weight)

    return rewrite(graph, rule)


def windows_of(node: Node) -> Windows | None:
    """What the kernel of a convolution sees of its input, where copies can bring it step by step to
    Hopper's tensor cores; None else."""
    if node.operation is not CONVOLUTION or node.dtype not in TENSOR_DTYPES:
        return None
    try:
        convolution = plain_convolution(node)
    except NotApplicable:
        return None
    window, sizes = convolution.window, (*node.shape[1:], *convolution.data.shape[1:])
    known = [size.constant for size in sizes]
    if convolution.turned or not all(known):
        return None
    depth = SWIZZLE_BYTES // node.dtype.itemsize
    windows = Windows("windows", window, node.shape[2:])
    dims = len(windows.pixels)
    kernel, margins, apart = map(windows.along, (window.kernel, window.padding, window.dilation))
    farthest = max(a * (taps - 1) for a, taps in zip(apart, kernel, strict=True))
    pixels = product_of(windows.pixels).constant
    if convolution.input_channels % depth or pixels is None or pixels % PAIR:
        return None
    if farthest > MOST_OFFSET[dims] or max(window.stride) > MOST_STRIDE:
        return None
    return windows if max(farthest, *margins) <= MOST_MARGIN[dims] else None


def _pays(node: Node, windows: Windows, device: Device, hints: SizeHints) -> bool:
    """Whether it takes less to multiply whole tiles than it takes the library's result to be read
    and stored with its channels second. Both need the operands with their channels last."""
    channels, pixels = node.shape[1].constant, product_of(windows.pixels).constant
    assert channels and pixels
    rows = -(-channels // ROWS) * ROWS
    columns = min(-(-pixels // width) * width for width in STAGES)
    added = (rows * columns) / (channels * pixels) - 1
    count = hints.value(node.type.count)
    flops = 2 * count * hints.value(product_of(node.operands[1].shape[1:]))
    moved = 2 * count * node.dtype.itemsize
    return added * flops / device.tensor_rate < moved / device.bandwidth


def _product(node: Node, windows: Windows, data: Node, weight: Node) -> Node:
    """The convolution `node` as a product of `weight` and `data`, whose channels are last."""
    images, channels, *spatial = node.shape
    depth = product_of(weight.shape[1:])
    pixels = product_of(spatial)
    matrix = build.reshape(weight, (1, channels, depth))
    left = build.expand(matrix, (images, channels, depth))
    right_type = TensorType((images, depth, pixels), node.dtype)
    right = Node(windows, (data,), Attributes(), right_type)
    made = build.matrix_product(left, right)
    made = replace(made, name=node.name, span=node.span, origin=node.written_as)
    return build.reshape(made, node.shape)
