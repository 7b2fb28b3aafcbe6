"""The tiles of a convolution of few channels, and whether there is one."""

from __future__ import annotations

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Node
from fusegen.ir.integers import Integer
from fusegen.plan.group import Context, NotApplicable
from fusegen.plan.kernels.base import WARP
from fusegen.plan.kernels.convolution import ConvolutionAxes, PixelTile, Window

# Neighbouring pixels that a lane holds: two fragments of 8 pixels side by side.
LANE_PIXELS = 4
# Channels of a fragment: rows of weights, and of the 8 input channels beside each other.
CHANNELS = 16
PIECE = 8
# Pixels that a warp works on together: float32, which has two sums an element, fills the registers
# with half as many.
WARP_PIXELS, SPLIT_WARP_PIXELS = 32, 16
# Rows and columns of a tile, the first that fits: rows of most images lie whole in a wide one, so
# that its pixels are neighbours in memory, and the more of them, the fewer pixels are read twice.
SHAPES = ((8, 256), (4, 256), (8, 128), (4, 128), (8, 64), (4, 64), (2, 64), (1, 32))
# A thread of 256 holds 8 channels of as many pixels of the tile, in registers, before it stores
# them in shared memory.
THREADS = 256
MOST_ROUNDS = 11
# Beside the pixels of all warps: lanes of neighbouring channels store to different banks.
STAGE_PADDING = 16
# What one element of the result may read: the steps over it are unrolled. It may be more where all
# channels of the result fit into a fragment, as in the gradient of an input of few channels.
MOST_ENTRIES, NARROW_ENTRIES = 32, 40
# Blocks that share a multiprocessor, and the most shared memory that each may have.
BLOCKS_A_PROCESSOR = 2
SHARED_MEMORY = 110 * 1024


def window_of(node: Node) -> Window:
    """How the kernel of a convolution lies on its input."""
    kernel = tuple(size.constant for size in node.operands[1].shape[2:])
    stride, padding, dilation = (
        node.attributes.integers(name) for name in ("stride", "padding", "dilation")
    )
    rows, columns = kernel
    assert rows is not None and columns is not None
    return Window(
        (rows, columns),
        (stride[0], stride[1]),
        (padding[0], padding[1]),
        (dilation[0], dilation[1]),
    )


def axes_of(node: Node) -> ConvolutionAxes:
    """The loop variables of a convolution."""
    data, weight = node.operands
    images, channels, height, width = node.shape
    input_channels = weight.shape[1].constant
    assert channels.constant is not None and input_channels is not None
    return ConvolutionAxes(
        Integer.symbol("image_index", images),
        Integer.symbol("input_channel", input_channels),
        Integer.symbol("input_row", data.shape[2]),
        Integer.symbol("input_column", data.shape[3]),
        Integer.symbol("output_channel", channels),
        Integer.symbol("kernel_row", weight.shape[2]),
        Integer.symbol("kernel_column", weight.shape[3]),
        images,
        input_channels,
        data.shape[2],
        data.shape[3],
        channels.constant,
        height,
        width,
    )


def pixel_tile(node: Node, context: Context) -> PixelTile:
    """The tile of a convolution; raises NotApplicable where none is small enough."""
    if any(size.constant is None for size in node.operands[1].shape):
        raise NotApplicable("the weight's size is known only at run time")
    axes, window = axes_of(node), window_of(node)
    pieces = -(-axes.input_channels // PIECE)
    entries = window.taps * pieces
    if entries > (MOST_ENTRIES if axes.channels > CHANNELS else NARROW_ENTRIES):
        raise NotApplicable(
            f"an element reads {axes.input_channels} channels of {window.taps} pixels, which is "
            "work for a library's convolution"
        )
    blocks = -(-axes.channels // CHANNELS)
    warp_blocks = 2 if blocks > 1 else 1
    planes = 2 if node.dtype is DType.FLOAT32 else 1
    steps = -(-entries // 2)
    padded = -(-blocks // warp_blocks) * warp_blocks
    weights = planes * steps * padded * CHANNELS * CHANNELS * DType.FLOAT16.itemsize
    limit = min(SHARED_MEMORY, context.device.shared_memory // BLOCKS_A_PROCESSOR)
    pixels = WARP_PIXELS if planes == 1 else SPLIT_WARP_PIXELS
    pitch = THREADS // WARP * pixels + STAGE_PADDING
    stage = warp_blocks * CHANNELS * pitch * node.dtype.itemsize
    most_columns = node.shape[3].constant
    for rows, widest in SHAPES:
        columns = widest if most_columns is None else min(widest, most_columns)
        slots = pieces * window.span(0, rows) * window.span(1, columns)
        patch = planes * slots * PIECE * DType.FLOAT16.itemsize
        if slots <= MOST_ROUNDS * THREADS and patch + weights + stage <= limit:
            return PixelTile(rows, columns, pixels, warp_blocks * CHANNELS, slots, pitch)
    raise NotApplicable("the pixels that a row of the result reads do not fit into shared memory")
