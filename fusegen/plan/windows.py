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
from fusegen.plan.plain_convolution import PlainConvolution, plain_convolution
from fusegen.plan.tensor_cores import STAGES, TENSOR_DTYPES
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
    if not device.has_wgmma:
        return graph
    copies: dict[tuple[Node, int], Node] = {}

    def with_last(node: Node, dim: int) -> Node:
        """A copy with that dim, one of the first two, behind all others."""
        if (node, dim) not in copies:
            order = (1 - dim, *range(2, node.type.rank), dim)
            copies[node, dim] = call(CLONE, (build.permute(node, order),))
        return copies[node, dim]

    def rule(node: Node) -> Node:
        convolution = _in_windows(node)
        if convolution is None or not _pays(convolution, device, hints):
            return node
        data = with_last(convolution.data, 1)
        weight = with_last(convolution.weight, 0 if convolution.turned else 1)
        return _product(convolution, data, weight)

    return rewrite(graph, rule)


def _in_windows(node: Node) -> PlainConvolution | None:
    """A convolution whose windows copies can bring step by step to Hopper's tensor cores; None
    else."""
    if node.dtype not in TENSOR_DTYPES:
        return None
    try:
        convolution = plain_convolution(node)
    except NotApplicable:
        return None
    window, dims = convolution.window, node.type.rank - 2
    has_more = node.operation is CONVOLUTION and any(node.attributes.integers("output_padding"))
    if window.is_spread or has_more:
        return None
    reaches = [a * (taps - 1) for a, taps in zip(window.dilation, window.kernel, strict=True)]
    if convolution.input_channels % (SWIZZLE_BYTES // node.dtype.itemsize):
        return None
    if max(reaches) > MOST_OFFSET[dims] or max(window.stride) > MOST_STRIDE:
        return None
    return convolution if max(*reaches, *window.padding) <= MOST_MARGIN[dims] else None


def _pays(convolution: PlainConvolution, device: Device, hints: SizeHints) -> bool:
    """Whether it takes less to multiply whole tiles than it takes the library's result to be read
    and stored with its channels second. Both need the operands with their channels last."""
    node, channels = convolution.result, convolution.channels
    pixels = hints.value(product_of(node.shape[2:]))
    half = ROWS // 2
    rows = half if channels <= half else -(-channels // ROWS) * ROWS
    columns = min(-(-pixels // width) * width for width in STAGES)
    added = (rows * columns) / (channels * pixels) - 1
    count = hints.value(node.type.count)
    flops = 2 * count * convolution.input_channels * convolution.window.taps
    moved = 2 * count * node.dtype.itemsize
    return added * flops / device.tensor_rate < moved / device.bandwidth


def _product(convolution: PlainConvolution, data: Node, weight: Node) -> Node:
    """The convolution as a product of its `weight` and `data`, whose channels are last."""
    node = convolution.result
    images, channels, *spatial = node.shape
    depth = product_of(weight.shape[1:])
    matrix = build.reshape(weight, (1, channels, depth))
    left = build.expand(matrix, (images, channels, depth))
    windows = Windows("windows", convolution.window, len(spatial), convolution.turned)
    seen = Node(windows, (data,), Attributes(), TensorType((images, depth, *spatial), node.dtype))
    right = build.reshape(seen, (images, depth, product_of(spatial)))
    made = build.matrix_product(left, right)
    made = replace(made, name=node.name, span=node.span, origin=node.written_as)
    return build.reshape(made, node.shape)
