"""Convolutions of many channels as matrix products, whose right operand is the input as the kernel
sees it.

The tensor cores' form copies what a step needs of the images by itself, so the matrix never stands
in memory, and the product's epilogues finish a convolution's elements with the channels second, as
PyTorch has them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from fusegen.ir.graph import Attributes, Graph, Node, TensorType, topological
from fusegen.ir.integers import ONE, ZERO, Integer
from fusegen.ir.integers import product as product_of
from fusegen.ops import build
from fusegen.ops.construct import call
from fusegen.ops.pointwise.functions import CLONE
from fusegen.ops.primitive.convolutions import CONVOLUTION
from fusegen.ops.record import Pointwise
from fusegen.passes.rewrite import with_roots
from fusegen.plan.cost import Device, SizeHints
from fusegen.plan.group import NotApplicable
from fusegen.plan.last_readers import Users, elements_of, reads_well, stored, users_of
from fusegen.plan.plain_convolution import PlainConvolution, plain_convolution
from fusegen.plan.tensor_cores import STAGES, TENSOR_DTYPES
from fusegen.plan.tile_waves import ROWS, SWIZZLE_BYTES
from fusegen.plan.window import Spatial, Window, Windows

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
        product = _in_windows(moved)
        if product is None:
            continue
        is_last = product.windows.matrices == 1 and _is_read_last(node, users)
        if not _pays(product, is_last, device, hints):
            continue
        operands = values.images(node.operands[0]), values.weights(product)
        if is_last:
            stay_last.update(elements_of(node, users))
            values.put_last(node, _with_pixels_first(product, *operands))
        else:
            values.done[node] = _with_channels_first(product, *operands)
    roots = {root: stored(values.done[root]) for root in dict.fromkeys(graph.roots)}
    return with_roots(graph, tuple(roots[root] for root in graph.roots))


@dataclass
class _Values:
    """What became of a graph's values: `done` as their readers know them, and those that have their
    channels in the `last` dim, of which the former are views. `copies` are made once."""

    done: dict[Node, Node] = field(default_factory=dict)
    last: dict[Node, Node] = field(default_factory=dict)
    copies: dict[Node, Node] = field(default_factory=dict)
    matrices: dict[tuple[Node, Windows], Node] = field(default_factory=dict)

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
            return self._copy(self.done[given])
        value = self.last[given]
        return value if isinstance(value.operation, Pointwise) else call(CLONE, (value,))

    def weights(self, product: _Product) -> Node:
        """A convolution's weight as a matrix for each phase: (phases, channels, taps * input
        channels)."""
        weight, windows = product.convolution.weight, product.windows
        key = weight, windows
        if key not in self.matrices:
            self.matrices[key] = _matrices(product.convolution, windows)
        return self.matrices[key]

    def _copy(self, value: Node) -> Node:
        """A copy with the second dim last."""
        if value not in self.copies:
            order = (0, *range(2, value.type.rank), 1)
            self.copies[value] = call(CLONE, (build.permute(value, order),))
        return self.copies[value]


def _matrices(convolution: PlainConvolution, windows: Windows) -> Node:
    """The weight's taps with their channels last; of those of several phases, each phase's, where
    taps that the kernel does not have are zeros."""
    weight = convolution.weight
    rank, outer = weight.type.rank, 1 if convolution.turned else 0
    last = build.permute(weight, (outer, *range(2, rank), 1 - outer))
    channels, given = last.shape[0], last.shape[-1]
    depth = windows.window.taps * given
    if windows.matrices == 1:
        is_same = not convolution.turned and windows.window.taps == 1
        return build.reshape(last if is_same else call(CLONE, (last,)), (1, channels, depth))
    shape: list[Integer] = []
    along = windows.along
    kernel, counts, lags = map(along, (windows.window.kernel, windows.phases, windows.lag))
    for dim, (taps, phases) in enumerate(zip(kernel, counts, strict=True), start=1):
        missing = taps * phases - last.shape[dim]
        if missing != ZERO:
            sizes = (*last.shape[:dim], missing, *last.shape[dim + 1 :])
            last = build.concatenate([last, build.zeros(sizes, weight.dtype)], dim)
        shape += [Integer.of(taps), Integer.of(phases)]
    apart = build.reshape(last, (channels, *shape, given))
    for dim, (phases, lag) in enumerate(zip(counts, lags, strict=True)):
        at = 2 + 2 * dim
        if lag:  # the first phase's taps come first
            pieces = [build.take(apart, at, lag, phases), build.take(apart, at, 0, lag)]
            apart = build.concatenate(pieces, at)
    dims = windows.dims
    order = (*range(2, 2 + 2 * dims, 2), 0, *range(1, 1 + 2 * dims, 2), 1 + 2 * dims)
    copy = call(CLONE, (build.permute(apart, order),))
    return build.reshape(copy, (windows.matrices, channels, depth))


def _is_read_last(node: Node, users: Users) -> bool:
    """Whether a convolution reads what elementwise operations make of the result, so that it had
    better have its channels last."""
    read = (user for value in elements_of(node, users) for user in users[value])
    return any(user.operation is CONVOLUTION for user in read) and reads_well(node, users)


@dataclass(frozen=True)
class _Product:
    """A convolution that may be a product: `windows` of its input, `sizes` of the result's pixels
    of which each matrix has one."""

    convolution: PlainConvolution
    windows: Windows
    sizes: tuple[Integer, ...]


def _in_windows(node: Node) -> _Product | None:
    """A convolution whose windows copies can bring step by step to Hopper's tensor cores; None
    else."""
    if node.dtype not in TENSOR_DTYPES:
        return None
    try:
        convolution = plain_convolution(node)
    except NotApplicable:
        return None
    if convolution.input_channels % (SWIZZLE_BYTES // node.dtype.itemsize):
        return None
    windows = _windows_of(convolution)
    if windows is None:
        return None
    window, dims = windows.window, windows.dims
    phases = windows.along(windows.phases)
    sizes = tuple(size // count for size, count in zip(node.shape[2:], phases, strict=True))
    if any(u * count != size for u, count, size in zip(sizes, phases, node.shape[2:], strict=True)):
        return None
    reach = max(map(_reach, window.kernel, window.dilation))
    if reach + max(windows.phases) > MOST_OFFSET[dims] or max(window.stride) > MOST_STRIDE:
        return None
    corners = max(*window.padding, *map(abs, windows.last))
    return _Product(convolution, windows, sizes) if corners < MOST_MARGIN[dims] else None


def _reach(taps: int, apart: int) -> int:
    """How far a window's last tap lies from its first."""
    return apart * (taps - 1)


def _windows_of(convolution: PlainConvolution) -> Windows | None:
    """The windows of a convolution; None where their corners are not known, or before the first."""
    node, window, turned = convolution.result, convolution.window, convolution.turned
    dims = node.type.rank - 2
    reaches = [*map(_reach, window.kernel, window.dilation)]
    if not turned:
        corners = (m - r for m, r in zip(window.padding, reaches, strict=True))
        return Windows("windows", window, dims, _spatial(corners))
    if any(s > 1 and apart > 1 for s, apart in zip(window.spread, window.dilation, strict=True)):
        return None
    # Of the library's padding, which these windows do not have, whole steps and the rest.
    given = [r - m for r, m in zip(reaches, window.padding, strict=True)]
    taps = _spatial(-(-k // s) for k, s in zip(window.kernel, window.spread, strict=True))
    lag = _spatial(p % s for p, s in zip(given, window.spread, strict=True))
    margins = _spatial(
        apart * (k - 1) - p // s
        for k, apart, p, s in zip(taps, window.dilation, given, window.spread, strict=True)
    )
    if min(margins) < 0:
        return None
    found = Windows(
        "windows",
        Window(taps, (1, 1, 1), margins, window.dilation, (1, 1, 1)),
        dims,
        (0, 0, 0),
        turned,
        window.spread,
        lag,
        window.kernel,
    )
    counts, margins_here = found.along(window.spread), found.along(margins)
    sizes = zip(node.shape[2:], convolution.data.shape[2:], counts, margins_here, strict=True)
    behind = [
        (result // count - given_size - margin).constant
        for result, given_size, count, margin in sizes
    ]
    known = [corner for corner in behind if corner is not None]
    if len(known) < dims:
        return None
    return replace(found, last=_spatial((*[0] * (3 - dims), *known)))


def _spatial(numbers: Iterable[int]) -> Spatial:
    planes, rows, columns = numbers
    return planes, rows, columns


def _pays(product: _Product, is_last: bool, device: Device, hints: SizeHints) -> bool:
    """Whether it takes less to multiply whole tiles than it takes what the library leaves, with its
    channels last, to be read and stored again. Both need the operands with their channels last."""
    convolution, windows = product.convolution, product.windows
    node, channels = convolution.result, convolution.channels
    pixels = hints.value(product_of(product.sizes))
    rows, columns = (pixels, channels) if is_last else (channels, pixels)
    height = ROWS // 2 if rows <= ROWS // 2 and not is_last else ROWS
    filled = rows if is_last else -(-rows // height) * height
    filled *= min(-(-columns // width) * width for width in STAGES)
    count = hints.value(node.type.count)
    each = 2 * count * convolution.input_channels
    needed = each * convolution.window.taps / windows.matrices
    multiplied = each * windows.window.taps * filled / (rows * columns)
    moved = 2 * count * node.dtype.itemsize
    return (multiplied - needed) / device.tensor_rate < moved / device.bandwidth


def _with_channels_first(product: _Product, data: Node, weight: Node) -> Node:
    """The convolution as a product of its `weight` and `data`, whose channels are last, for each
    matrix of its windows: pixels are the columns."""
    node, windows = product.convolution.result, product.windows
    images, channels = node.shape[:2]
    *_, channels, depth = weight.shape
    count, dims = windows.matrices, windows.dims
    one = build.reshape(weight, (1, count, channels, depth))
    all = build.expand(one, (images, count, channels, depth))
    left = build.reshape(all, (images * count, channels, depth))
    right = build.reshape(_seen(product, data), (images * count, depth, product_of(product.sizes)))
    made = _named_after(node, build.matrix_product(left, right))
    if count > 1:
        phases = windows.along(windows.phases)
        apart = build.reshape(made, (images, *phases, channels, *product.sizes))
        pairs = [dim for i in range(dims) for dim in (2 + dims + i, 1 + i)]
        made = build.permute(apart, (0, 1 + dims, *pairs))
    return build.reshape(made, node.shape)


def _with_pixels_first(product: _Product, data: Node, weight: Node) -> Node:
    """The same for all images together: channels are the columns, and last in the result."""
    node = product.convolution.result
    images, channels, *spatial = node.shape
    dims = len(spatial)
    depth = weight.shape[-1]
    seen = build.permute(_seen(product, data), (0, *range(2, 2 + dims), 1))
    left = build.reshape(seen, (images * product_of(spatial), depth))
    right = build.transpose(build.reshape(weight, (channels, depth)))
    made = _named_after(node, build.matrix_product(left, right))
    return build.reshape(made, (images, *spatial, channels))


def _seen(product: _Product, data: Node) -> Node:
    """What the kernel sees of the input."""
    node, windows = product.convolution.result, product.windows
    depth = Integer.of(windows.window.taps * product.convolution.input_channels)
    matrices = node.shape[0] * windows.matrices
    type = TensorType((matrices, depth, *product.sizes), node.dtype)
    return Node(windows, (data,), Attributes(), type)


def _named_after(node: Node, product: Node) -> Node:
    return replace(product, name=node.name, span=node.span, origin=node.written_as)
