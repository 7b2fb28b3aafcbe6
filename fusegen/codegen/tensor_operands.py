"""How a product's operands come into shared memory by bulk copies of tiles: the text of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fusegen.codegen.c_text import storage_type
from fusegen.codegen.kernel_text import sizes_of
from fusegen.codegen.scope import Scope
from fusegen.ir.dtypes import DType
from fusegen.ir.integers import ZERO, Atom, Integer
from fusegen.plan.coordinates import unflatten
from fusegen.plan.kernels.matrix_view import (
    BatchDim,
    Major,
    MatrixView,
    OperandView,
    WindowView,
    run_stride,
)
from fusegen.plan.kernels.product import ProductPlan
from fusegen.plan.kernels.product_forms import Exchange, WgmmaForm
from fusegen.plan.kernels.split_product import SplitOperand
from fusegen.plan.plain_convolution import PLACES
from fusegen.plan.tensor_cores import LANES, PAIR
from fusegen.plan.tile_waves import SWIZZLE_BYTES


@dataclass(frozen=True)
class RunsText:
    """How a tensor's dims are taken together in runs: the array `name` of `count` strides, from
    `strides`, `sizes` and the runs' `ends`."""

    name: str
    count: int
    strides: str
    sizes: str
    ends: str


@dataclass(frozen=True)
class PlaceText:
    """A coordinate of a tile's matrix, which the kernel computes once for the tile as `name`."""

    name: str
    text: str


@dataclass(frozen=True)
class OperandText:
    """An operand's tile in each stage, and the tensor map that describes where it comes from.

    The tile begins `start` elements into the stage and has `tile_lines` lines along K, of which the
    kernel's variable `first_line` is the first. The map describes `pointer` to matrices of which
    `batch` has the coordinates of the one that the kernel reads, one at least, some of them among
    `places`: `sizes` and `strides`, in elements, from the innermost dim on, and `box`, what a copy
    brings; with `rest_box` there is a second map for the last tile's copies, which bring fewer
    lines. `conditions` are those under which it is right.

    Where neighbours in memory are neighbouring lines (`is_line_major`), the tile comes in chunks of
    `box[0]` lines. Where `exchanged` is given, a multiple of 8, the map has five dims, and the tile
    has the lines of every `exchanged` neighbours in another order: such that the columns of the
    accumulators that a thread holds are neighbours in the result.
    """

    name: str
    type: str
    start: int
    tile_lines: int
    first_line: str
    pointer: str
    sizes: tuple[str, ...]
    strides: tuple[str, ...]
    box: tuple[int, ...]
    rest_box: tuple[int | str, ...] | None
    batch: tuple[str, ...]
    places: tuple[PlaceText, ...]
    is_line_major: bool
    exchanged: int
    runs: RunsText | None
    conditions: tuple[str, ...]
    is_window: bool = False

    @property
    def map(self) -> str:
        """The kernel's variable with the map for the tile at hand."""
        return f"{self.name}_map" if self.rest_box is None else f"{self.name}_map_here"

    @property
    def maps(self) -> tuple[tuple[str, tuple[int | str, ...]], ...]:
        """The kernel's arguments that are maps of it, with their boxes."""
        whole = f"{self.name}_map", self.box
        return (
            (whole,) if self.rest_box is None else (whole, (f"{self.name}_rest_map", self.rest_box))
        )


@dataclass(frozen=True)
class WindowText:
    """The same of an operand that is read through a window: the map describes images, in which the
    window's first place begins `lower` from an image's first element and ends `upper` from its last
    one, a step of `steps` from the next. The tile's first line is the window at `places`, from the
    outermost dim on, the last of which is the image; a step along K brings the `channels` from
    `channel` on of the tap that lies `offsets` further, from the innermost dim on."""

    name: str
    type: str
    start: int
    tile_lines: int
    pointer: str
    sizes: tuple[str, ...]
    strides: tuple[str, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    steps: tuple[int, ...]
    places: tuple[PlaceText, ...]
    channel: str
    offsets: tuple[str, ...]
    channels: int
    is_line_major: bool = False
    runs: None = None
    is_window: bool = True

    @property
    def map(self) -> str:
        """The kernel's variable with the map."""
        return f"{self.name}_map"

    @property
    def maps(self) -> tuple[tuple[str, tuple[int | str, ...]], ...]:
        """The kernel's argument that is a map of it, with what a copy brings."""
        return ((self.map, ()),)


@dataclass(frozen=True)
class _Side:
    """One operand of a product: its tile begins `start` elements into a stage and has `tile_lines`
    of the matrix's `lines` lines, of which the last one's has the launcher's `rest_lines`, if
    given."""

    name: str
    view: OperandView
    start: int
    tile_lines: int
    lines: Integer
    first_line: str
    neighbours: int = PAIR
    rest_lines: str | None = None


def operand_texts(
    plan: ProductPlan, cores: WgmmaForm, scope: Scope, host: Scope
) -> tuple[OperandText | WindowText, ...]:
    """Both operands, in the order in which they lie in a stage; `scope` is the kernel's, `host` the
    launcher's.

    Of an operand that is split the low parts stand behind the high ones."""
    axes = plan.axes
    left_size, right_size = cores.rows * cores.depth, cores.columns * cores.depth
    left = _Side(
        "left",
        cores.left,
        0,
        cores.rows,
        axes.rows,
        "tile_first_row",
        rest_lines="rest_lines" if cores.fewer_lines else None,
    )
    right = _Side(
        "right",
        cores.right,
        left_size,
        cores.columns,
        axes.columns,
        "tile_first_column",
        cores.neighbours if cores.exchange is Exchange.BY_COPY else PAIR,
    )
    sides = [left, right]
    if cores.split:
        right = replace(right, start=2 * left_size)
        sides = [
            left,
            _low(left, cores.split.left, left_size),
            right,
            _low(right, cores.split.right, right.start + right_size),
        ]
    return tuple(
        _windows(side, side.view, cores.depth, scope, host)
        if isinstance(side.view, WindowView)
        else _operand(side, side.view, cores.depth, scope, host)
        for side in sides
    )


def _low(high: _Side, operand: SplitOperand, start: int) -> _Side:
    """The tile of an operand's low parts, which lie behind all of its high ones."""
    base = operand.batches * operand.lines * operand.pitch
    assert isinstance(high.view, MatrixView)
    return replace(high, name=f"{high.name}_low", view=replace(high.view, base=base), start=start)


def _operand(side: _Side, view: MatrixView, depth: int, kernel: Scope, host: Scope) -> OperandText:
    runs = f"{side.name}_run"
    strides: dict[Atom, str] = {run_stride(i): f"{runs}[{i}]" for i in range(len(view.runs))}
    scope = replace(host, symbols={**host.symbols, **strides})
    pointer = scope.buffer(view.buffer)
    is_exchanged = side.neighbours > PAIR
    sizes, tile_strides, box = (_exchanged_tiles if is_exchanged else _tiles)(side, view, depth)
    # A matrix may be the same for all batches; then there is one, and any stride will do.
    one = BatchDim(ZERO, Integer.of(1), view.outer_stride)
    batches = view.batches or (one,)
    if not is_exchanged:
        sizes = (*sizes, *(dim.count for dim in batches))
        tile_strides = (*tile_strides, *(dim.stride for dim in batches))
        box = (*box, *(1 for _ in batches))
    coordinates = [kernel.text(dim.index) for dim in batches]
    places = {
        text: PlaceText(kernel.names.fresh(f"{side.name}_batch_{i}"), text)
        for i, text in enumerate(coordinates)
        if batches[i].index.divisions()
    }
    return OperandText(
        side.name,
        "Tf32" if view.buffer.dtype is DType.FLOAT32 else storage_type(view.buffer.dtype),
        side.start,
        side.tile_lines,
        side.first_line,
        pointer if view.base == ZERO else f"{pointer} + {scope.factor(view.base)}",
        tuple("depths" if size is None else scope.text(size) for size in sizes),
        tuple(scope.text(stride) for stride in tile_strides),
        box,
        (box[0], side.rest_lines, *box[2:]) if side.rest_lines else None,
        tuple(places[text].name if text in places else text for text in coordinates),
        tuple(places.values()),
        view.major is Major.LINE,
        LANES * side.neighbours if is_exchanged else 0,
        _runs(runs, view, scope) if view.runs else None,
        (f"{scope.text(view.inner_stride)} == 1",) if view.runs else (),
    )


def _windows(side: _Side, view: WindowView, depth: int, kernel: Scope, host: Scope) -> WindowText:
    """An operand that is read through a window."""
    windows, (images, *sizes, channels) = view.windows, view.buffer.shape
    window, along = windows.window, windows.along
    stride, margins, apart = map(along, (window.stride, window.padding, window.dilation))
    taps = along(window.kernel)
    chunks = channels // depth
    step = Integer.symbol("step", chunks * window.taps)
    line = Integer.symbol(side.first_line, side.lines)
    names: dict[Atom, str] = {x.alone: x.alone.name for x in (step, line)}
    scope = replace(kernel, symbols={**kernel.symbols, **names})
    image, *first = unflatten(line, (images, *view.pixels))
    if view.image is not None:
        image, first = view.image, [*unflatten(line, view.pixels)]
    starts = (at * each - margin for at, each, margin in zip(first, stride, margins, strict=True))
    places = tuple(
        PlaceText(scope.names.fresh(f"first_{name}"), scope.text(place))
        for name, place in zip((*PLACES[-len(sizes) :], "image"), (*starts, image), strict=True)
    )
    tap = unflatten(step // chunks, tuple(map(Integer.of, taps)))
    if windows.turned:
        tap = tuple(count - 1 - at for count, at in zip(taps, tap, strict=True))
    offsets = (scope.text(at * each) for at, each in zip(tap, apart, strict=True))
    last = ((count - 1) * each for count, each in zip(taps, apart, strict=True))
    strides = [channels]
    for size in reversed(sizes):
        strides.append(strides[-1] * size)
    return WindowText(
        side.name,
        storage_type(view.buffer.dtype),
        side.start,
        side.tile_lines,
        host.buffer(view.buffer),
        tuple(map(host.text, reversed(view.buffer.shape))),
        tuple(map(host.text, strides)),
        tuple(-margin for margin in reversed(margins)),
        tuple(m - reach for m, reach in zip(margins, last, strict=True))[::-1],
        stride[::-1],
        places,
        scope.text(step % chunks * depth),
        tuple(offsets)[::-1],
        depth,
    )


# Sizes, of which None is the depth, strides but for the innermost, and sides of a box.
_Tiles = tuple[tuple[Integer | None, ...], tuple[Integer, ...], tuple[int, ...]]


def _tiles(side: _Side, view: MatrixView, depth: int) -> _Tiles:
    """A matrix in its two dims."""
    chunk = SWIZZLE_BYTES // view.buffer.dtype.itemsize
    if view.major is Major.LINE:
        return (side.lines, None), (view.outer_stride,), (chunk, depth)
    return (None, side.lines), (view.outer_stride,), (chunk, side.tile_lines)


def _exchanged_tiles(side: _Side, view: MatrixView, depth: int) -> _Tiles:
    """A matrix whose lines come to shared memory in another order than they have.

    In every 8 columns of the accumulators, each of 4 lanes holds a pair. So that these make n
    neighbours over n / 2 such blocks, line 2 j + e of lane q's n comes as number 8 j + 2 q + e: a
    box over dims of e, q, j, in this order, and of what is left of the lines.
    """
    line, n = view.line_stride, side.neighbours
    run = LANES * n
    return (
        (None, Integer.of(PAIR), Integer.of(LANES), Integer.of(n // PAIR), side.lines // run),
        (line, line * n, line * PAIR, line * run),
        (depth, PAIR, LANES, n // PAIR, side.tile_lines // run),
    )


def _runs(name: str, view: MatrixView, scope: Scope) -> RunsText:
    ends = ", ".join(map(str, view.runs))
    return RunsText(
        name,
        len(view.runs),
        f"{scope.buffer(view.buffer)}_strides",
        sizes_of(scope, view.buffer),
        f"{{{ends}}}",
    )
