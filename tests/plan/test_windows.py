"""Which convolutions are products of a weight and windows, and on which tiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Node
from fusegen.passes import pipeline
from fusegen.passes.differentiation import differentiate
from fusegen.plan import convolution_products
from fusegen.plan.cost import H100, Device, SizeHints
from fusegen.plan.expressions import WindowLoad
from fusegen.plan.kernels.elementwise import ElementwisePlan
from fusegen.plan.kernels.epilogues import ElementEpilogue
from fusegen.plan.kernels.library import LibraryPlan
from fusegen.plan.kernels.matrix_view import MatrixView, WindowView
from fusegen.plan.kernels.module import ModulePlan
from fusegen.plan.kernels.product import ProductPlan
from fusegen.plan.kernels.product_forms import Exchange, WgmmaForm
from fusegen.plan.kernels.rows import RowPlan
from fusegen.plan.module import plan_module
from fusegen.plan.precision import Precision
from fusegen.plan.tensor_cores import tensor_cores
from tests.emulated import Size, apply, graph, planned, value

HINTS = {"n": 64, "d": 16, "h": 64, "w": 64}
SQUEEZED = {"down": (64, 256), "up": (256, 64)}
WITHOUT = replace(H100, has_wgmma=False)


def operands(
    channels: int = 64,
    results: int = 64,
    *,
    kernel: tuple[int, ...] = (3, 3),
    sizes: tuple[Size, ...] = ("h", "w"),
    dtype: DType = DType.BFLOAT16,
    channels_first: bool = False,
    groups: int = 1,
) -> list[Node]:
    """An input and a weight, whose `channels_first` are the input's for transposed ones."""
    shape = (channels, results // groups) if channels_first else (results, channels // groups)
    x = value("x", "n", channels, *sizes[-len(kernel) :], dtype=dtype)
    return [x, value("weight", *shape, *kernel, dtype=dtype)]


def convolved(inputs: list[Node], **given: object) -> Node:
    return apply(f"conv{inputs[0].type.rank - 2}d", *inputs, **given)


def transposed(inputs: list[Node], **given: object) -> Node:
    return apply(f"conv_transpose{inputs[0].type.rank - 2}d", *inputs, **given)


def plan_of(
    inputs: list[Node], result: Node, hints: Mapping[str, int] = HINTS, device: Device = H100
) -> ModulePlan:
    return planned(graph(inputs, result), hints, device=device)


def multiplied(plan: ModulePlan) -> list[ProductPlan]:
    """The products of windows."""
    steps = [step for step in plan.steps if isinstance(step, ProductPlan)]
    return [s for s in steps if any(isinstance(x, WindowLoad) for x in (s.left, s.right))]


def is_the_librarys(plan: ModulePlan) -> bool:
    """Whether the plan's one convolution is not a product; it must be one of the two."""
    called = sum(isinstance(step, LibraryPlan) for step in plan.steps)
    assert called + len(multiplied(plan)) == 1
    return called == 1


def form_of(plan: ModulePlan) -> WgmmaForm:
    (step,) = multiplied(plan)
    assert step.tensor_cores is not None
    return step.tensor_cores


def grid(height: int, width: int) -> tuple[Size, ...]:
    return (height, width)


PRODUCTS: dict[str, tuple[list[Node], dict[str, object]]] = {
    "bfloat16": (operands(), {}),
    "float16": (operands(dtype=DType.FLOAT16), {}),
    "128 channels": (operands(128), {}),
    "192 channels": (operands(192), {}),
    "odd results": (operands(64, 37), {}),
    "known sizes": (operands(sizes=grid(56, 56)), {"padding": 1}),
    "a margin": (operands(), {"padding": (1, 2)}),
    "the widest margin": (operands(kernel=(3, 3)), {"padding": 127}),
    "a step": (operands(), {"stride": (2, 1)}),
    "the longest step": (operands(), {"stride": 8}),
    "taps apart": (operands(), {"dilation": (1, 2)}),
    "taps far apart": (operands(), {"dilation": 64}),
    "one tap": (operands(512, 128, kernel=(1, 1)), {}),
    "a margin of one tap": (operands(512, 128, kernel=(1, 1)), {"padding": 1}),
    "as much margin as can be": (operands(), {"padding": 128}),
    "a bias": ([*operands(), value("bias", 64, dtype=DType.BFLOAT16)], {}),
    "planes": (operands(kernel=(3, 3, 3), sizes=("d", "h", "w")), {"padding": 1}),
}
LIBRARYS: dict[str, tuple[list[Node], dict[str, object]]] = {
    "float32": (operands(dtype=DType.FLOAT32), {}),
    "float64": (operands(dtype=DType.FLOAT64), {}),
    "96 channels": (operands(96), {}),
    "groups": (operands(128, 128, groups=2), {"groups": 2}),
    "too much margin": (operands(), {"padding": 129}),
    "too much margin of one tap": (operands(512, 128, kernel=(1, 1)), {"padding": 128}),
    "too long a step": (operands(), {"stride": 9}),
    "taps too far apart": (operands(), {"dilation": 65}),
    "too much margin of planes": (
        operands(kernel=(3, 3, 3), sizes=("d", "h", "w")),
        {"padding": 17},
    ),
    "planes too far apart": (
        operands(kernel=(3, 3, 3), sizes=(64, "h", "w")),
        {"dilation": (9, 1, 1)},
    ),
    "one dim": (operands(kernel=(3,), sizes=("w",)), {}),
}
# Whether transposed ones are products: with a longer step they read zeros between the elements.
TRANSPOSED: dict[str, tuple[dict[str, object], bool]] = {
    "a step of 2": ({"stride": 2, "padding": 1}, False),
    "a step of 1": ({}, True),
    "a margin": ({"padding": 1}, True),
    "taps apart": ({"dilation": 2}, True),
    "more margin than the kernel reaches": ({"padding": 3}, False),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str) -> None:
    inputs, given = PRODUCTS[name]
    assert not is_the_librarys(plan_of(inputs, convolved(inputs, **given)))


@pytest.mark.parametrize("name", LIBRARYS)
def test_what_is_left_to_the_library(name: str) -> None:
    inputs, given = LIBRARYS[name]
    assert is_the_librarys(plan_of(inputs, convolved(inputs, **given)))


@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_ones(name: str) -> None:
    given, is_product = TRANSPOSED[name]
    inputs = operands(channels_first=True)
    plan = plan_of(inputs, transposed(inputs, **given))
    assert is_the_librarys(plan) is not is_product


def test_a_device_without_copies_of_windows() -> None:
    inputs = operands()
    assert is_the_librarys(plan_of(inputs, convolved(inputs), device=WITHOUT))


@pytest.mark.parametrize(
    ("channels", "results", "pixels", "is_product"),
    [
        (64, 64, (7, 7), True),  # 49 of 64 pixels, and little to compute for each
        (1024, 64, (7, 7), False),
        (1024, 64, (8, 8), True),  # whole tiles
        (512, 96, (8, 8), False),  # 96 of 128 results
        (512, 128, (8, 8), True),
        (512, 72, (16, 16), False),
        (64, 96, (8, 8), True),
        (512, 64, (17, 17), False),  # 289 of 320 pixels
        (512, 64, (32, 33), True),  # 1056 of 1088
    ],
)
def test_whole_tiles_must_not_take_longer_than_the_copies_they_save(
    channels: int, results: int, pixels: tuple[int, int], is_product: bool
) -> None:
    inputs = operands(channels, results, sizes=grid(*pixels))
    assert is_the_librarys(plan_of(inputs, convolved(inputs, padding=1))) is not is_product


def backward_of(inputs: list[Node], result: Node) -> ModulePlan:
    """The plan of a graph's backward."""
    found = differentiate(graph(inputs, result))
    assert found is not None
    return plan_module(pipeline.run(found.backward), DType.FLOAT32, SizeHints(HINTS))


@pytest.mark.parametrize(
    ("of", "given", "is_product"),
    [
        (convolved, {"padding": 1}, True),
        (convolved, {"dilation": 2}, True),
        (transposed, {"padding": 1}, True),
        (transposed, {"stride": 2, "padding": 1}, True),
        (transposed, {"stride": 2, "padding": 1, "output_padding": 1}, True),
        (convolved, {"padding": 3}, False),  # results of no pixel
        (convolved, {"stride": 2, "padding": 1}, False),
    ],
)
def test_gradients_of_inputs(
    of: Callable[..., Node], given: dict[str, object], is_product: bool
) -> None:
    inputs = operands(64, 128, channels_first=of is transposed)
    plan = backward_of(inputs, of(inputs, **given))
    assert len(multiplied(plan)) == is_product
    assert any(isinstance(step, LibraryPlan) for step in plan.steps)  # the weight's gradient


def test_an_operand_is_copied_once() -> None:
    x, weight, other = (
        value("x", "n", 64, "h", "w", dtype=DType.BFLOAT16),
        *(value(name, 64, 64, 3, 3, dtype=DType.BFLOAT16) for name in ("weight", "other")),
    )
    results = [apply("conv2d", x, weight), apply("conv2d", x, other), apply("relu", x)]
    apart = [*results[:2], apply("conv2d", results[2], weight)]
    plan = planned(graph([x, weight, other], *apart), HINTS)
    products = multiplied(plan)
    assert len(products) == 3
    assert len({step.right.buffer for step in products}) == 2
    assert len({step.left.buffer for step in products}) == 2
    assert sum(isinstance(step, ElementwisePlan) for step in plan.steps) <= 4


def test_a_weight_of_one_tap_is_read_where_it_is() -> None:
    inputs = operands(512, 128, kernel=(1, 1))
    plan = plan_of(inputs, convolved(inputs, stride=2))
    assert sum(isinstance(step, ElementwisePlan) for step in plan.steps) == 1
    assert multiplied(plan)[0].left.buffer in plan.arguments


@pytest.fixture
def everything_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever part of its tiles a product leaves empty."""
    monkeypatch.setattr(convolution_products, "_pays", lambda *given: True)
    monkeypatch.setattr(convolution_products, "_reads_few", lambda *given: False)


@pytest.mark.usefixtures("everything_pays")
@pytest.mark.parametrize("results", [1, 37, 48, 64])
def test_few_results_have_tiles_of_64_rows(results: int) -> None:
    inputs = operands(results=results, sizes=grid(64, 64))
    (step,) = multiplied(plan_of(inputs, convolved(inputs, padding=1)))
    assert step.tensor_forms and all(form.rows == 64 for form in step.tensor_forms)
    assert all(
        form.is_beside and 2 * form.own_columns == form.columns for form in step.tensor_forms
    )


@pytest.mark.usefixtures("everything_pays")
@pytest.mark.parametrize("results", [65, 72, 128, 136])
def test_others_have_tiles_of_128_rows(results: int) -> None:
    inputs = operands(results=results, sizes=grid(64, 64))
    (step,) = multiplied(plan_of(inputs, convolved(inputs, padding=1)))
    assert step.tensor_forms and all(form.rows == 128 for form in step.tensor_forms)
    assert all(form.own_columns == form.columns for form in step.tensor_forms)


def test_operands_of_the_form() -> None:
    inputs = operands(sizes=grid(64, 64))
    form = form_of(plan_of(inputs, convolved(inputs)))
    assert isinstance(form.left, MatrixView) and isinstance(form.right, WindowView)
    inputs = operands(512, 128, sizes=grid(64, 64), kernel=(1, 1))
    form = form_of(plan_of(inputs, convolved(inputs)))
    assert isinstance(form.right, MatrixView)  # all pixels, one after the other


@pytest.mark.parametrize(
    ("sizes", "exchange"),
    [
        ((64, 64), Exchange.OF_RESULTS),
        ((9, 8), Exchange.OF_RESULTS),
        ((9, 7), Exchange.THROUGH_SHARED),
        ((9, 10), Exchange.THROUGH_SHARED),  # pairs, and no whole vectors
        (("h", "w"), Exchange.THROUGH_SHARED),
        (("h", 8), Exchange.OF_RESULTS),
    ],
)
def test_how_results_are_stored(sizes: tuple[Size, ...], exchange: Exchange) -> None:
    inputs = operands(sizes=sizes)
    assert form_of(plan_of(inputs, convolved(inputs, padding=1))).exchange is exchange


def test_a_residual_of_odd_size_is_added_in_the_same_kernel() -> None:
    inputs = operands(sizes=grid(9, 7))
    made = apply("relu", apply("add", convolved(inputs, padding=1), inputs[0]))
    plan = plan_of(inputs, made)
    assert form_of(plan).exchange is Exchange.THROUGH_SHARED
    assert isinstance(plan.steps[-1], ProductPlan)


def reduced(name: str) -> Callable[[Node], Node]:
    return lambda y: apply(name, apply("relu", y), dim=(2, 3))


@pytest.mark.parametrize("follows", [reduced("amax"), reduced("mean")])
@pytest.mark.parametrize(
    ("sizes", "is_whole"), [((64, 64), True), ((9, 7), False), (("h", "w"), False)]
)
def test_what_needs_pairs_is_apart_where_their_number_is_not_known(
    follows: Callable[[Node], Node], sizes: tuple[Size, ...], is_whole: bool
) -> None:
    """A reduction over pixels in the product's kernel would have no form there."""
    inputs = operands(sizes=sizes)
    plan = plan_of(inputs, follows(convolved(inputs, padding=1)))
    (step,) = multiplied(plan)
    assert step.tensor_cores is not None
    if not is_whole:
        assert isinstance(step.epilogue, ElementEpilogue)
        assert any(isinstance(other, RowPlan) for other in plan.steps)


def test_extremes_of_whole_images_are_found_in_the_products_kernel() -> None:
    inputs = operands(sizes=grid(64, 64))
    (step,) = multiplied(plan_of(inputs, reduced("amax")(convolved(inputs, padding=1))))
    assert step.tensor_cores is not None and not isinstance(step.epilogue, ElementEpilogue)


@pytest.mark.parametrize(
    ("sizes", "width", "has_form"),
    [
        (("h", "w"), None, True),
        (("h", "w"), 64, False),
        ((9, 7), 64, False),
        ((8, "w"), 64, True),
        ((64, 64), 64, True),
        ((64, 64), 128, True),
        ((64, 64), 256, False),  # more than a warpgroup has of a tile of 64 rows
        ((64, 64), 63, False),
    ],
)
def test_groups_of_columns_need_pairs(
    sizes: tuple[Size, ...], width: int | None, has_form: bool
) -> None:
    """A form for what works on so many neighbouring columns, of results with so many pixels."""
    inputs = operands(sizes=sizes)
    (step,) = multiplied(plan_of(inputs, convolved(inputs, padding=1)))
    found = tensor_cores(step.left, step.right, step.axes, width, Precision.HIGHEST)
    assert (found is not None) is has_form


def test_what_another_convolution_reads_has_its_channels_last() -> None:
    inputs = operands(sizes=grid(56, 56))
    between = apply("relu", convolved(inputs, padding=1))
    plan = plan_of(inputs, apply("conv2d", between, inputs[1], padding=1))
    first, second = multiplied(plan)
    assert isinstance(first.left, WindowLoad) and isinstance(second.right, WindowLoad)
    assert second.right.buffer in first.written
    assert sum(isinstance(step, ElementwisePlan) for step in plan.steps) == 2  # input and weight


def test_sizes_that_are_not_known_are_taken_to_be_large() -> None:
    inputs = operands()
    assert len(multiplied(planned(graph(inputs, convolved(inputs))))) == 1


@pytest.mark.parametrize(
    ("shape", "given"),
    [
        ((3, 128, 3, 3), {"padding": 1}),
        ((128, 16, 3, 3), {"padding": 1, "groups": 8}),
        ((128, 1, 3, 3), {"padding": 1, "groups": 128}),
        ((128, 128, 3, 3), {"stride": 9}),
    ],
    ids=["few results", "groups", "depthwise", "a long step"],
)
@pytest.mark.parametrize("is_read_twice", [False, True])
def test_the_library_reads_what_stands_in_memory(
    shape: tuple[int, ...], given: dict[str, object], is_read_twice: bool
) -> None:
    """By itself it is no reason to have channels last, and beside a product it gets a copy."""
    inputs = operands(results=128)
    made = apply("relu", convolved(inputs, padding=1))
    others = [value("other", *shape, dtype=DType.BFLOAT16)]
    results = [apply("conv2d", made, others[0], **given)]
    if is_read_twice:
        others.append(value("another", 128, 128, 3, 3, dtype=DType.BFLOAT16))
        results.append(apply("conv2d", made, others[1], padding=1))
    plan = planned(graph([*inputs, *others], *results), HINTS)
    first, *_ = (step for step in plan.steps if isinstance(step, ProductPlan))
    assert any(isinstance(step, LibraryPlan) for step in plan.steps)
    assert isinstance(first.left, WindowLoad) is is_read_twice


def test_pooled_channels_are_weighed_by_convolutions_of_one_pixel() -> None:
    x = value("x", "n", 256, "h", "w", dtype=DType.BFLOAT16)
    down, up = (value(n, *s, 1, 1, dtype=DType.BFLOAT16) for n, s in SQUEEZED.items())
    mean = apply("mean", x, dim=(2, 3), keepdim=True)
    weights = apply("sigmoid", apply("conv2d", apply("relu", apply("conv2d", mean, down)), up))
    plan = planned(graph([x, down, up], apply("mul", x, weights)), HINTS)
    assert not any(isinstance(step, (LibraryPlan, ProductPlan)) for step in plan.steps)


@pytest.mark.parametrize(("results", "kernels"), [(128, 1), (320, 2)])
def test_what_is_reduced_over_channels_is_not_stored(results: int, kernels: int) -> None:
    """They are the columns of one tile, or each tile leaves states."""
    inputs = operands(results=results)
    made = convolved(inputs, padding=1)
    least = apply("amin", apply("relu", made), dim=1, keepdim=True)
    plan = planned(graph(inputs, least), HINTS)
    *_, product = multiplied(plan)
    assert isinstance(product.left, WindowLoad)
    assert len(plan.steps) == 2 + kernels  # copies of both operands are the first
    assert not any(buffer.type.count == made.type.count for buffer in product.written)


def test_a_norm_in_evaluation_is_in_the_epilogue() -> None:
    """What it is made of step by step is float32, which goes through shared memory, too."""
    inputs = operands()
    names = ("mean", "variance", "weight", "bias")
    given = [value(f"norm_{name}", 64, dtype=DType.BFLOAT16) for name in names]
    normed = apply("batch_norm", convolved(inputs, padding=1), *given)
    residual = apply("relu", apply("add", normed, inputs[0]))
    plan = planned(graph([*inputs, *given], residual), HINTS)
    (product,) = multiplied(plan)
    assert product is plan.steps[-1]
    large = [s for s in plan.steps if any(b.type.count == residual.type.count for b in s.written)]
    assert len(large) == 2  # the input's copy is the other
