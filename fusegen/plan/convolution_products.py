"""Convolutions of many channels as matrix products, whose right operand is the input as the kernel
sees it.

The tensor cores' form copies what a step needs of the images by itself, so the matrix never stands
in memory, and the product's epilogues finish a convolution's elements with the channels second, as
PyTorch has them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from fusegen.ir.graph import Attributes, Graph, Node, TensorType, topological
from fusegen.ir.integers import ONE, Integer
from fusegen.ir.integers import product as product_of
from fusegen.ops import build
from fusegen.ops.construct import call
from fusegen.ops.pointwise.functions import CLONE
from fusegen.ops.primitive.convolutions import CONVOLUTION
from fusegen.ops.record import Pointwise, Reduction
from fusegen.passes.rewrite import with_roots
from fusegen.plan.cost import Device, SizeHints
from fusegen.plan.group import NotApplicable
from fusegen.plan.last_readers import Users, elements_of, reads_well, stored, users_of
from fusegen.plan.pixel_tiles import pixel_tile
from fusegen.plan.plain_convolution import PlainConvolution, plain_convolution
from fusegen.plan.tensor_cores import STAGES, TENSOR_DTYPES
from fusegen.plan.tile_waves import ROWS, SWIZZLE_BYTES
from fusegen.plan.window import Windows

# What a copy through a window can take, by the number of an image's dims: where windows may begin
# before an image's first element, or its last, up to one less behind it, the farthest tap (CUDA
# driver API, cuTensorMapEncodeIm2col; PTX ISA, im2col offsets), and the longest step along any.
CORNERS = {2: 128, 3: 16}
MOST_OFFSET = {2: 255, 3: 31}
MOST_STRIDE = 8


def multiply_windows(graph: Graph, device: Device, hints: SizeHints) -> Graph:
    """The graph in which convolutions of 16 bits are products of the weight and their windows,
    where that takes less time than what the library's need beside themselves."""
    if not device.has_wgmma:
        return graph
    order = topological(graph.roots)
    users = users_of(order)
    values = _Values()
    stay_last: set[Node] = set()
    for node in order:
        if node in stay_last and isinstance(node.operation, Pointwise):
            values.put_last(node, values.elementwise(node))
            continue
        moved = values.moved(node)
        values.done[node] = moved
        convolution = _in_windows(moved)
        if convolution is None:
            continue
        is_last = _is_read_last(node, users, device, hints)
        is_chained = is_last or node.operands[0] in values.last
        if not is_chained and _reads_few(convolution, device):
            continue
        if not _pays(convolution, is_last, device, hints):
            continue
        data = values.images(node.operands[0])
        weight = values.matrix(convolution)
        if is_last:
            stay_last.update(elements_of(node, users))
            values.put_last(node, _with_pixels_first(convolution, data, weight))
        else:
            values.done[node] = _with_channels_first(convolution, data, weight)
    roots = {root: stored(values.done[root]) for root in dict.fromkeys(graph.roots)}
    return with_roots(graph, tuple(roots[root] for root in graph.roots))


@dataclass
class _Values:
    """What became of a graph's values: `done` as their readers know them, and those that have their
    channels in the `last` dim, of which the former are views. `copies` are made once."""

    done: dict[Node, Node] = field(default_factory=dict)
    last: dict[Node, Node] = field(default_factory=dict)
    copies: dict[tuple[Node, int], Node] = field(default_factory=dict)

    def moved(self, node: Node) -> Node:
        """The node over what became of its operands."""
        operands = tuple(self.done[operand] for operand in node.operands)
        return node if operands == node.operands else replace(node, operands=operands)

    def put_last(self, node: Node, made: Node) -> None:
        """`node` has become `made`, which has its channels last."""
        self.last[node] = made
        rank = node.type.rank
        self.done[node] = build.permute(made, (0, rank - 1, *range(1, rank - 1)))

    def elementwise(self, node: Node) -> Node:
        """An elementwise operation that reads, and has, the channels last."""
        rank = node.type.rank
        operands = tuple(self._read_last(operand, rank) for operand in node.operands)
        images, channels, *spatial = node.shape
        type = TensorType((images, *spatial, channels), node.dtype)
        return replace(node, operands=operands, type=type)

    def _read_last(self, operand: Node, rank: int) -> Node:
        """An operand of an operation of that rank, with what is second there in the last dim."""
        if operand in self.last:
            return self.last[operand]
        value = self.done[operand]
        if not value.shape:
            return value
        whole = build.reshape(value, ((ONE,) * (rank - value.type.rank) + value.shape))
        return build.permute(whole, (0, *range(2, rank), 1))

    def images(self, given: Node) -> Node:
        """A value with its channels last, as it stands in memory."""
        if given not in self.last:
            return self._copy(self.done[given], 1)
        value = self.last[given]
        if isinstance(value.operation, Pointwise):
            return value
        if (value, 1) not in self.copies:
            self.copies[value, 1] = call(CLONE, (value,))
        return self.copies[value, 1]

    def matrix(self, convolution: PlainConvolution) -> Node:
        """A convolution's weight with what it multiplies behind all other dims."""
        dim = 0 if convolution.turned else 1
        if convolution.window.taps == 1 and not convolution.turned:
            return build.permute(
                convolution.weight, (0, *range(2, convolution.weight.type.rank), 1)
            )
        return self._copy(convolution.weight, dim)

    def _copy(self, value: Node, dim: int) -> Node:
        """A copy with that dim, one of the first two, behind all others."""
        if (value, dim) not in self.copies:
            order = (1 - dim, *range(2, value.type.rank), dim)
            copy = call(CLONE, (build.permute(value, order),))
            name = f"{value.name}_last" if value.name else None
            self.copies[value, dim] = replace(copy, name=name)
        return self.copies[value, dim]


def _is_read_last(node: Node, users: Users, device: Device, hints: SizeHints) -> bool:
    """Whether what elementwise operations make of a convolution's result is read by another one
    that is a product itself, or reduced over its channels, so that it had better have these last.
    """
    reads = ((value, user) for value in elements_of(node, users) for user in users[value])
    return reads_well(node, users) and any(
        _is_over_channels(user) or _is_multiplied(value, user, device, hints)
        for value, user in reads
    )


def _is_over_channels(user: Node) -> bool:
    """Whether it is a reduction over the second dim."""
    return isinstance(user.operation, Reduction) and user.attributes.integers("dims") == (1,)


def _is_multiplied(value: Node, user: Node, device: Device, hints: SizeHints) -> bool:
    """Whether `value` is the input of a convolution that is a product."""
    if user.operation is not CONVOLUTION or user.operands[0] is not value:
        return False
    reader = _in_windows(user)
    return reader is not None and _pays(reader, False, device, hints)


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
    if convolution.input_channels % (SWIZZLE_BYTES // node.dtype.itemsize):
        return None
    reaches = [a * (taps - 1) for a, taps in zip(window.dilation, window.kernel, strict=True)]
    corners = [m - reach for m, reach in zip(window.padding, reaches, strict=True)]
    corners += [-margin for margin in window.padding]
    if min(corners) < -CORNERS[dims] or max(corners) >= CORNERS[dims]:
        return None
    are_near = max(reaches) <= MOST_OFFSET[dims] and max(window.stride) <= MOST_STRIDE
    return convolution if are_near else None


def _reads_few(convolution: PlainConvolution, device: Device) -> bool:
    """Whether there is a kernel of its own, which needs no copy of the input: one tap of many
    channels, say."""
    try:
        pixel_tile(convolution, device)
    except NotApplicable:
        return False
    return True


def _pays(convolution: PlainConvolution, is_last: bool, device: Device, hints: SizeHints) -> bool:
    """Whether it takes less to multiply whole tiles than it takes what the library leaves, with its
    channels last, to be read and stored again. Both need the operands with their channels last."""
    node, channels = convolution.result, convolution.channels
    pixels = hints.value(product_of(node.shape[2:]))
    rows, columns = (pixels, channels) if is_last else (channels, pixels)
    height = ROWS // 2 if rows <= ROWS // 2 and not is_last else ROWS
    filled = rows if is_last else -(-rows // height) * height
    added = filled * min(-(-columns // width) * width for width in STAGES) / (rows * columns) - 1
    count = hints.value(node.type.count)
    flops = 2 * count * convolution.input_channels * convolution.window.taps
    moved = 2 * count * node.dtype.itemsize
    return added * flops / device.tensor_rate < moved / device.bandwidth


def _with_channels_first(convolution: PlainConvolution, data: Node, weight: Node) -> Node:
    """The convolution as a product of its `weight` and `data`, whose channels are last, for each
    image: pixels are the columns."""
    node = convolution.result
    images, channels, *spatial = node.shape
    depth = product_of(weight.shape[1:])
    matrix = build.reshape(weight, (1, channels, depth))
    left = build.expand(matrix, (images, channels, depth))
    right = build.reshape(_seen(convolution, data), (images, depth, product_of(spatial)))
    return build.reshape(_named_after(node, build.matrix_product(left, right)), node.shape)


def _with_pixels_first(convolution: PlainConvolution, data: Node, weight: Node) -> Node:
    """The same for all images together: channels are the columns, and last in the result."""
    node = convolution.result
    images, channels, *spatial = node.shape
    dims = len(spatial)
    depth = product_of(weight.shape[1:])
    seen = build.permute(_seen(convolution, data), (0, *range(2, 2 + dims), 1))
    left = build.reshape(seen, (images * product_of(spatial), depth))
    right = build.transpose(build.reshape(weight, (channels, depth)))
    made = _named_after(node, build.matrix_product(left, right))
    return build.reshape(made, (images, *spatial, channels))


def _seen(convolution: PlainConvolution, data: Node) -> Node:
    """What the kernel sees of the input."""
    node = convolution.result
    images, _, *spatial = node.shape
    depth = convolution.window.taps * convolution.input_channels
    windows = Windows("windows", convolution.window, len(spatial), convolution.turned)
    type = TensorType((images, Integer.of(depth), *spatial), node.dtype)
    return Node(windows, (data,), Attributes(), type)


def _named_after(node: Node, product: Node) -> Node:
    return replace(product, name=node.name, span=node.span, origin=node.written_as)
