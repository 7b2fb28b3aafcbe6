"""Which convolutions have a kernel of their own, and what shares it."""

from __future__ import annotations

import pytest

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Node
from fusegen.plan.boundaries import boundaries
from fusegen.plan.cost import H100, SizeHints
from fusegen.plan.kernels.convolution import ConvolutionPlan, Pieces
from fusegen.plan.kernels.library import LibraryPlan
from fusegen.plan.kernels.module import ModulePlan
from fusegen.plan.kernels.rows import RowPlan
from fusegen.plan.pixel_tiles import MOST_ROUNDS, THREADS, pieces_of
from fusegen.plan.window import Window
from tests.emulated import apply, graph, planned, value

HINTS = {"n": 64, "h": 128, "w": 128}


def convolved(
    channels: int = 8, kernel: tuple[int, ...] = (3, 3), dtype: DType = DType.FLOAT32, **given: int
) -> tuple[list[Node], Node]:
    """The inputs of a convolution, and its result."""
    rank = len(kernel)
    name = f"conv{rank}d"
    x = value("x", "n", channels, *("h", "w", "d")[:rank], dtype=dtype)
    weight = value("weight", 16, channels // given.get("groups", 1), *kernel, dtype=dtype)
    return [x, weight], apply(name, x, weight, **given)


def steps(inputs: list[Node], *results: Node) -> list[type]:
    return [type(step) for step in planned(graph(inputs, *results), HINTS).steps]


@pytest.mark.parametrize(
    ("case", "why"),
    [
        (convolved(channels=64), "an element reads 64 channels of 9 pixels"),
        (convolved(channels=3, kernel=(7, 7)), "an element reads 3 channels of 49 pixels"),
        (convolved(kernel=(4, 4, 4)), "an element reads 8 channels of 64 pixels"),
        (convolved(groups=2), "only convolutions over two or three dims in one group"),
        (convolved(kernel=(3,)), "only convolutions over two or three dims in one group"),
        (convolved(dtype=DType.FLOAT64), "a convolution of float64"),
    ],
)
def test_what_is_left_to_the_library(case: tuple[list[Node], Node], why: str) -> None:
    inputs, result = case
    chain = graph(inputs, apply("sigmoid", result))
    plan = planned(chain, HINTS)
    assert isinstance(plan.steps[0], LibraryPlan) and len(plan.steps) == 2
    (boundary,) = boundaries(plan, SizeHints(HINTS))
    assert why in boundary.why


@pytest.mark.parametrize("channels", [8, 64])
def test_a_transposed_convolution_of_few_channels_has_a_kernel(channels: int) -> None:
    x, weight = value("x", "n", channels, "h", "w"), value("weight", channels, 16, 3, 3)
    result = apply("gelu", apply("conv_transpose2d", x, weight, stride=2))
    few = channels == 8
    assert steps([x, weight], result)[0] is (ConvolutionPlan if few else LibraryPlan)


def test_planes_and_their_norms_have_kernels() -> None:
    x, weight = value("x", "n", 3, 12, "h", "w"), value("weight", 16, 3, 3, 3, 3)
    norm = apply("group_norm", apply("conv3d", x, weight), num_groups=4)
    kinds = [ConvolutionPlan, RowPlan, ConvolutionPlan]
    assert steps([x, weight], norm) == kinds


def test_norms_of_planes_whose_number_is_not_known_read_a_stored_result() -> None:
    x, weight = value("x", "n", 3, "d", "h", "w"), value("weight", 16, 3, 3, 3, 3)
    norm = apply("group_norm", apply("conv3d", x, weight), num_groups=4)
    plan = planned(graph([x, weight], norm), HINTS | {"d": 12})
    first = plan.steps[0]
    assert isinstance(first, ConvolutionPlan) and first.stores and not first.states


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32])
def test_an_activation_is_part_of_the_kernel(dtype: DType) -> None:
    inputs, result = convolved(dtype=dtype)
    assert steps(inputs, apply("gelu", result)) == [ConvolutionPlan]


def test_an_input_that_is_computed_stands_in_memory() -> None:
    inputs, _ = convolved()
    active = apply("relu", inputs[0])
    result = apply("add", apply("conv2d", active, inputs[1]), 1.0)
    kinds = steps(inputs, result)
    assert kinds[-1] is ConvolutionPlan and len(kinds) == 2


def plan_of(*dims: int) -> ModulePlan:
    """A mean over some dims of a convolution."""
    inputs, result = convolved()
    return planned(graph(inputs, apply("mean", result, dim=dims)), HINTS)


def test_reductions_over_whole_channels_leave_states() -> None:
    for dims in ((2, 3), (1, 2, 3)):
        first, second = plan_of(*dims).steps
        assert isinstance(first, ConvolutionPlan) and not first.stores and len(first.states) == 1
        assert isinstance(second, RowPlan)


@pytest.mark.parametrize("dims", [(3,), (0, 2, 3), (1,)])
def test_other_reductions_read_a_stored_result(dims: tuple[int, ...]) -> None:
    plan = plan_of(*dims)
    first = plan.steps[0]
    assert isinstance(first, ConvolutionPlan) and first.stores and not first.states
    assert len(plan.steps) > 1


def test_mean_and_moments_of_the_same_values_share_a_state() -> None:
    inputs, result = convolved()
    norm = apply("group_norm", apply("sigmoid", result), num_groups=4)
    first, second, third = planned(graph(inputs, norm), HINTS).steps
    assert isinstance(first, ConvolutionPlan) and len(first.states) == 1
    assert isinstance(second, RowPlan)
    assert isinstance(third, ConvolutionPlan) and third.stores and not third.states


def test_a_dtype_that_counts_is_not_summed_in_float() -> None:
    inputs, result = convolved()
    positive = apply("sum", apply("gt", result, 0.0), dim=(2, 3))
    plan = planned(graph(inputs, positive), HINTS)
    assert not any(isinstance(s, ConvolutionPlan) and s.states for s in plan.steps)


def fitting(case: tuple[list[Node], Node]) -> ConvolutionPlan:
    inputs, result = case
    (step,) = planned(graph(inputs, apply("sigmoid", result)), HINTS).steps
    assert isinstance(step, ConvolutionPlan)
    return step


@pytest.mark.parametrize("dtype", [DType.BFLOAT16, DType.FLOAT32])
@pytest.mark.parametrize(
    ("channels", "kernel", "given"),
    [
        (8, (3, 3), {}),
        (3, (5, 5), {"padding": 2}),
        (8, (3, 3), {"stride": 2}),
        (24, (3, 3), {"dilation": 2}),
        (1, (4, 8), {"stride": 4}),
    ],
)
def test_tiles_fit_into_registers_and_shared_memory(
    dtype: DType, channels: int, kernel: tuple[int, int], given: dict[str, int]
) -> None:
    step = fitting(convolved(channels, kernel, dtype, **given))
    tile = step.tile
    window = step.window
    assert step.pieces.count == -(-channels // 8)
    needed = step.pieces.count * window.span(1, tile.rows) * window.span(2, tile.columns)
    assert tile.slots == needed <= MOST_ROUNDS * THREADS
    parts = 2 if dtype is DType.FLOAT32 else 1
    assert 2 * parts * tile.slots * 16 < H100.shared_memory


def test_the_span_of_a_window() -> None:
    window = Window((1, 3, 2), (1, 2, 1), (0, 0, 0), (1, 1, 4), (1, 1, 1))
    assert [window.span(1, n) for n in (1, 2, 3)] == [3, 5, 7]
    assert [window.span(2, n) for n in (1, 2)] == [5, 6]
    assert window.taps == window.plane_taps == 6
    assert not window.is_spread


@pytest.mark.parametrize(
    ("planes", "channels", "pieces"),
    [
        (1, 3, Pieces(8, 1, 1, 1)),
        (1, 20, Pieces(8, 1, 3, 3)),
        (3, 8, Pieces(8, 1, 1, 3)),
        (3, 12, Pieces(8, 1, 2, 6)),
        (3, 3, Pieces(4, 2, 1, 2)),
        (4, 1, Pieces(1, 8, 1, 1)),
    ],
)
def test_few_channels_of_several_planes_share_a_piece(
    planes: int, channels: int, pieces: Pieces
) -> None:
    ones = (1, 1, 1)
    window = Window((planes, 3, 3), ones, (0, 0, 0), ones, ones)
    assert pieces_of(window, channels) == pieces
    assert pieces.channels * pieces.planes == 8
    assert pieces.count * pieces.planes >= planes * pieces.of_planes
