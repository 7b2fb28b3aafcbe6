"""The text of a convolution's kernel."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.codegen.c_text import compute_type, storage_type, stored
from fusegen.codegen.kernel_text import KernelText
from fusegen.codegen.loops import VectorLoop, element_in_memory, scalar_load
from fusegen.codegen.names import mentions
from fusegen.codegen.scope import Scope, stored_integers
from fusegen.codegen.statements import Statements
from fusegen.ir.dtypes import DType
from fusegen.ir.integers import Symbol
from fusegen.plan.buffers import state_bytes
from fusegen.plan.expressions import Accumulator, Compute, Expression, Literal, Select, Size, walk
from fusegen.plan.kernels.convolution import ConvolutionPlan, Pieces, PixelTile
from fusegen.plan.phases import Levels
from fusegen.plan.pixel_tiles import BLOCKS_A_PROCESSOR, CHANNELS, PIECE, THREADS
from fusegen.plan.window import Window

# What the sizes of the input are called.
INPUT_SIZES = ("planes", "height", "width")
# The element at hand, as the lanes hold it.
ELEMENT = "sums[block][(first + element) / 2][half * 2 + (first + element) % 2]"


@dataclass(frozen=True)
class ChannelValue:
    """A value that a channel of an image has for all its pixels: an array of those that a thread
    works on, and the text of one of them."""

    name: str
    type: str
    value: str


@dataclass(frozen=True)
class ChannelState:
    """A reduction over a channel's pixels: the arrays of its states and of the values that feed
    it, and where the states of a tile go."""

    name: str
    values: str
    type: str
    bytes: int
    target: str


@dataclass(frozen=True)
class StageText:
    """A result that goes through shared memory: its pointer and type."""

    target: str
    type: str


@dataclass(frozen=True)
class ConvolutionText:
    """What the skeleton `convolution.cu.j2` fills in.

    `planes`, `height` and `width` are the result's sizes, `input_sizes` the input's, of which
    images have no planes. `input` and `weight` are elements as they are loaded, in memory's type
    `storage`; the input is the tensor `input_name`, `input_steps` lie between its neighbours along
    each dim. The tensor cores take elements as `part`, which is two for each element if the plan is
    `split`. `row_lines` are computed for each channel of an image, ahead of its `channel_values`;
    `before`, `body` and `after` stand around and inside the loop over a run of neighbouring pixels.
    With a `stage`, `after` stores to shared memory at `stage_place`, and the text does the rest.
    """

    kernel: KernelText
    window: Window
    pieces: Pieces
    tile: PixelTile
    images: str
    planes: str
    height: str
    width: str
    input_sizes: tuple[str, ...]
    channels: int
    input_channels: int
    storage: str
    part: str
    split: bool
    input: str
    input_name: str
    input_steps: tuple[str, ...]
    weight: str
    vector: int
    row_lines: tuple[str, ...]
    channel_values: tuple[ChannelValue, ...]
    before: tuple[str, ...]
    body: tuple[str, ...]
    after: tuple[str, ...]
    states: tuple[ChannelState, ...]
    stage: StageText | None
    turned: bool
    threads: int = THREADS
    blocks_a_processor: int = BLOCKS_A_PROCESSOR

    @property
    def has_planes(self) -> bool:
        """Whether there are planes, and not one image each."""
        return len(self.input_sizes) == 3

    @property
    def entries(self) -> int:
        """How many pieces an element of the result reads."""
        return self.window.plane_taps * self.pieces.count

    @property
    def guarded(self) -> bool:
        """Whether some tiles are multiplied outside the tensor cores: numbers that parts cannot
        hold, and weights that are infinite or NaN, which must not meet the zeros around and between
        the elements where the kernel is turned, as these have no part in a result there."""
        return self.split or self.turned

    def phase(self, dim: int) -> int:
        """What makes a place in the spread input, which begins with the padding, a positive number:
        the next multiple of the spread, less the padding."""
        return -self.window.padding[dim] % self.window.spread[dim]

    def skipped(self, dim: int) -> int:
        """How many elements of the input that is."""
        return -(-self.window.padding[dim] // self.window.spread[dim])

    @property
    def channel_tiles(self) -> int:
        """How often a warp's channels make up those of the result."""
        return -(-self.channels // self.tile.warp_channels)

    @property
    def weight_bytes(self) -> int:
        """The shared memory that the fragments of all weights take."""
        steps = -(-self.entries // 2)
        channels = self.channel_tiles * self.tile.warp_channels
        planes = 2 if self.split else 1
        return planes * steps * channels * CHANNELS * DType.FLOAT16.itemsize

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a block: the patch, the weights' fragments, and the stage."""
        planes = 2 if self.split else 1
        used = planes * self.tile.slots * PIECE * DType.FLOAT16.itemsize + self.weight_bytes
        if self.stage is None:
            return used
        item = DType.FLOAT32.itemsize if self.split else DType.FLOAT16.itemsize
        return used + self.tile.warp_channels * self.tile.stage_pitch * item

    @property
    def needs_column(self) -> bool:
        """Whether the variable `column` occurs in the text."""
        return mentions((*self.before, *self.body, *self.after), "column")

    @property
    def needs_place(self) -> bool:
        """Whether it matters where the pixels lie."""
        lines = (*self.before, *self.body, *self.after)
        return self.needs_column or mentions(lines, "first_column")

    @property
    def channels_need_row(self) -> bool:
        """Whether the variable `row` occurs in what is computed for each channel."""
        return mentions((*self.row_lines, *(v.value for v in self.channel_values)), "row")

    @property
    def needs_row(self) -> bool:
        """Whether the variable `row` occurs in what is done with elements."""
        return mentions((*self.before, *self.body, *self.after), "row")


def convolution_text(plan: ConvolutionPlan) -> ConvolutionText:
    """Fill the skeleton from the plan."""
    axes, domain = plan.axes, plan.domain
    integers = (domain.row, domain.column, domain.columns, axes.images)
    sizes = (axes.planes, axes.height, axes.width, *axes.input_sizes)
    scope = Scope.of(
        plan.name,
        (plan.input, plan.weight, *plan.values),
        plan.written,
        (*integers, *sizes, *stored_integers(plan.stores)),
    )
    load = scalar_load(scope)
    row = Statements(scope.names, scope.symbols, load, load)
    loop = VectorLoop(scope, domain.column, "first_column", plan.vector, (domain.columns,))
    known: dict[Expression, str] = {
        e: ELEMENT for e in walk(plan.values) if isinstance(e, Accumulator)
    }
    channel_values = []
    for expression in _of_channels(plan.values, domain.column.alone):
        name = scope.names.fresh(f"channel_{expression.name}")
        dtype = compute_type(expression.dtype)
        channel_values.append(ChannelValue(name, dtype, row.value(expression)))
        known[expression] = f"{name}[block][half]"
    element = Statements(scope.names, loop.scope.symbols, loop.load, load, known)
    for expression in plan.measured:
        if isinstance(expression, Compute):
            name = scope.names.fresh(f"measured_{expression.name}")
            value = f"rounded({element.value(expression)})"
            element.lines.append(f"const float {name} = {value};")
            element.known[expression] = name
    stage = None
    if plan.through_shared:
        (store,) = plan.stores
        stage = StageText(scope.buffer(store.buffer), storage_type(store.buffer.dtype))
        converted = stored(element.value(store.value), store.value.dtype, store.buffer.dtype)
        element.lines.append(f"staged[element] = {converted};")
        loop.before.append(f"Vector<{stage.type}, vector> staged;")
        loop.after.append("store_vector(stage + stage_place, staged);")
    else:
        for store in plan.stores:  # contiguous: each stands behind the loop, where guarded
            assert loop.is_contiguous(store.position)
            element.lines.append(loop.store(store, element.value(store.value)))
    states = _states(plan, scope, element)
    storage = storage_type(plan.input.buffer.dtype)
    split = plan.input.buffer.dtype is DType.FLOAT32
    return ConvolutionText(
        KernelText.of(plan, scope),
        plan.window,
        plan.pieces,
        plan.tile,
        scope.text(axes.images),
        scope.text(axes.planes),
        scope.text(axes.height),
        scope.text(axes.width),
        tuple(scope.text(size) for size in axes.input_sizes),
        axes.channels,
        axes.input_channels,
        storage,
        "float16" if split else storage,
        split,
        element_in_memory(plan.input, scope),
        scope.buffer(plan.input.buffer),
        _steps(plan, scope),
        element_in_memory(plan.weight, scope),
        plan.vector,
        row.drain(),
        tuple(channel_values),
        tuple(loop.before),
        element.drain(),
        tuple(loop.after),
        states,
        stage,
        plan.turned,
    )


def _steps(plan: ConvolutionPlan, scope: Scope) -> tuple[str, ...]:
    """The distances between neighbours of the input along each dim, in elements."""
    buffer = plan.input.buffer
    *planes, height, width = (f"input_{n}" for n in INPUT_SIZES[-len(plan.axes.input_sizes) :])
    image = [str(plan.axes.input_channels), *planes, height, width]
    packed = tuple(" * ".join(image[dim:]) or "1" for dim in range(len(image) + 1))
    if buffer not in scope.strided:
        return packed
    strides = f"{scope.buffer(buffer)}_strides"
    return tuple(f"packed ? {step} : {strides}.at[{dim}]" for dim, step in enumerate(packed))


def _states(plan: ConvolutionPlan, scope: Scope, element: Statements) -> tuple[ChannelState, ...]:
    """The states, whose values the element loop collects."""
    found = []
    for state in plan.states:
        operand = state.reduction.operand
        name = scope.names.fresh(f"{state.reduction.name}_states")
        values = scope.names.fresh(f"{state.reduction.name}_values")
        element.lines.append(f"{values}[first + element] = {element.value(operand)};")
        monoid = state.reduction.monoid
        found.append(
            ChannelState(
                name,
                values,
                f"{monoid.value}<{compute_type(state.accumulator)}>",
                state_bytes(monoid, state.accumulator),
                scope.buffer(state.buffer),
            )
        )
    return tuple(found)


def _of_channels(roots: tuple[Expression, ...], column: Symbol) -> tuple[Expression, ...]:
    """The values that are the same for all pixels of a channel, as far as others need them: not
    what only one side of a selection needs, which may lie outside its tensor."""
    varies = Levels.of(roots, column).varies
    found: dict[Expression, None] = {}
    seen: set[Expression] = set()
    stack = [*reversed(roots)]
    while stack:
        expression = stack.pop()
        if expression in seen:
            continue
        seen.add(expression)
        if isinstance(expression, (Literal, Select, Size)):
            continue
        if varies[expression]:
            stack.extend(reversed(expression.arguments))
        else:
            found[expression] = None
    return tuple(found)
