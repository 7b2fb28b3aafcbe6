"""The tiles of a convolution of few channels, and whether there is one."""

from __future__ import annotations

from fusegen.ir.dtypes import DType
from fusegen.plan.cost import Device
from fusegen.plan.group import NotApplicable
from fusegen.plan.kernels.base import WARP
from fusegen.plan.kernels.convolution import Pieces, PixelTile
from fusegen.plan.plain_convolution import PlainConvolution
from fusegen.plan.window import Window

# Neighbouring pixels that a lane holds: two fragments of 8 pixels side by side.
LANE_PIXELS = 4
# Channels of a fragment, the rows of weights; and numbers that it takes of the input together.
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


def pieces_of(window: Window, input_channels: int) -> Pieces:
    """How what is read at a place is cut into pieces: few channels of several planes share one."""
    planes = window.kernel[0]
    channels = 1 << (input_channels - 1).bit_length()  # a power of two, which divides a piece
    if planes == 1 or channels >= PIECE:
        of_planes = -(-input_channels // PIECE)
        return Pieces(PIECE, 1, of_planes, planes * of_planes)
    shared = PIECE // channels
    return Pieces(channels, shared, 1, -(-planes // shared))


def pixel_tile(convolution: PlainConvolution, device: Device) -> PixelTile:
    """The tile of a convolution; raises NotApplicable where none is small enough."""
    node, window = convolution.result, convolution.window
    input_channels, channels = convolution.input_channels, convolution.channels
    pieces = pieces_of(window, input_channels).count
    entries = window.plane_taps * pieces
    if entries > (MOST_ENTRIES if channels > CHANNELS else NARROW_ENTRIES):
        raise NotApplicable(
            f"an element reads {input_channels} channels of {window.taps} pixels, which is "
            "work for a library's convolution"
        )
    blocks = -(-channels // CHANNELS)
    warp_blocks = 2 if blocks > 1 else 1
    planes = 2 if node.dtype is DType.FLOAT32 else 1
    steps = -(-entries // 2)
    padded = -(-blocks // warp_blocks) * warp_blocks
    weights = planes * steps * padded * CHANNELS * CHANNELS * DType.FLOAT16.itemsize
    limit = min(SHARED_MEMORY, device.shared_memory // BLOCKS_A_PROCESSOR)
    pixels = WARP_PIXELS if planes == 1 else SPLIT_WARP_PIXELS
    pitch = THREADS // WARP * pixels + STAGE_PADDING
    stage = warp_blocks * CHANNELS * pitch * node.dtype.itemsize
    most_columns = node.shape[-1].constant
    for rows, widest in SHAPES:
        columns = widest if most_columns is None else min(widest, most_columns)
        slots = pieces * window.span(1, rows) * window.span(2, columns)
        patch = planes * slots * PIECE * DType.FLOAT16.itemsize
        if slots <= MOST_ROUNDS * THREADS and patch + weights + stage <= limit:
            return PixelTile(rows, columns, pixels, warp_blocks * CHANNELS, slots, pitch)
    raise NotApplicable("the pixels that a row of the result reads do not fit into shared memory")
