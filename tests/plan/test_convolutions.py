"""Which convolutions have a kernel of their own, and what shares it."""

from __future__ import annotations

import pytest

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Node
from fusegen.plan.boundaries import boundaries
from fusegen.plan.cost import H100, SizeHints
from fusegen.plan.kernels.convolution import ConvolutionPlan, Window
from fusegen.plan.kernels.library import LibraryPlan
from fusegen.plan.kernels.module import ModulePlan
from fusegen.plan.kernels.rows import RowPlan
from fusegen.plan.pixel_tiles import MOST_ROUNDS, THREADS
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
        (convolved(groups=2), "only a plain two-dimensional convolution"),
        (convolved(kernel=(3,)), "only a plain two-dimensional convolution"),
        (convolved(kernel=(2, 2, 2)), "only a plain two-dimensional convolution"),
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


def test_a_transposed_convolution_is_left_to_the_library() -> None:
    x, weight = value("x", "n", 8, "h", "w"), value("weight", 8, 4, 3, 3)
    assert steps([x, weight], apply("conv_transpose2d", x, weight)) == [LibraryPlan]


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
    pieces = -(-channels // 8)
    needed = pieces * window.span(0, tile.rows) * window.span(1, tile.columns)
    assert tile.slots == needed <= MOST_ROUNDS * THREADS
    parts = 2 if dtype is DType.FLOAT32 else 1
    assert 2 * parts * tile.slots * 16 < H100.shared_memory


def test_the_span_of_a_window() -> None:
    window = Window((3, 2), (2, 1), (0, 0), (1, 4))
    assert [window.span(0, n) for n in (1, 2, 3)] == [3, 5, 7]
    assert [window.span(1, n) for n in (1, 2)] == [5, 6]
    assert window.taps == 6
