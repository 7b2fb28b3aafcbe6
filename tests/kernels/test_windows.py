"""Convolutions of many channels as products of a weight and windows: every kind of window, results
of any number of columns, and what follows in the same kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest
import torch
import torch.nn.functional as F

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node
from fusegen.plan import convolution_products
from fusegen.plan.expressions import WindowLoad
from fusegen.plan.kernels.module import ModulePlan
from fusegen.plan.kernels.product import ProductPlan
from fusegen.plan.kernels.product_forms import TileKind, WgmmaForm
from fusegen.plan.tensor_cores import STAGES, STAGES_BESIDE, on_kind
from fusegen.runtime.loader import emulator_runtime
from tests.emulated import Kernels, Size, apply, build, graph, link, planned, value
from tests.kernels.families import add
from tests.ops.examples import torch_dtype
from tests.reference import evaluate

SEEDS = (0, 1)
BF16, F16 = DType.BFLOAT16, DType.FLOAT16
INFINITY, NAN = float("inf"), float("nan")
TENSOR_CORES = "tensor_kernel"
WEIGHT = (64, 64, 3, 3)

# What follows a convolution, given its result, a value for each channel, and the input.
Follows = Callable[[Node, Node, Node], Node | tuple[Node, ...]]


def relu(x: Node) -> Node:
    return apply("relu", x)


def alone(y: Node, bias: Node, x: Node) -> Node:
    return y


def biased(y: Node, bias: Node, x: Node) -> Node:
    return relu(add(y, bias))


def residual(y: Node, bias: Node, x: Node) -> Node:
    """The input has the result's shape."""
    return relu(add(add(y, bias), x))


def two_results(y: Node, bias: Node, x: Node) -> tuple[Node, ...]:
    added = add(y, bias)
    return relu(added), added


def reduced(name: str) -> Follows:
    """A reduction over the pixels of an image, of what has one sign."""
    return lambda y, bias, x: apply(name, biased(y, bias, x), dim=tuple(range(2, y.type.rank)))


def over_channels(name: str) -> Follows:
    """A reduction over an image's channels."""
    return lambda y, bias, x: apply(name, biased(y, bias, x), dim=1, keepdim=True)


@dataclass(frozen=True)
class Case:
    """A convolution of images with `channels`, whose sizes are symbolic where they have names, as
    is the number of `images` unless the planner `knows` it."""

    operation: str
    channels: int
    results: int
    kernel: tuple[int, ...]
    sizes: tuple[Size, ...]
    given: Mapping[str, object] = field(default_factory=dict)
    dtype: DType = BF16
    follows: Follows = alone
    images: int = 2
    knows: bool = False

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """Transposed ones have the input's channels first."""
        pair = (self.results, self.channels)
        return (*(pair[::-1] if "transpose" in self.operation else pair), *self.kernel)

    def graph(self) -> Graph:
        """Of the input, the weight, and a value for each channel of the result."""
        images = self.images if self.knows else "n"
        x = value("x", images, self.channels, *self.sizes, dtype=self.dtype)
        weight = value("weight", *self.weight_shape, dtype=self.dtype)
        bias = value("bias", self.results, *[1] * len(self.kernel), dtype=self.dtype)
        made = self.follows(apply(self.operation, x, weight, **self.given), bias, x)
        return graph([x, weight, bias], *(made if isinstance(made, tuple) else (made,)))

    def tensors(self, sizes: tuple[int, ...] = (), images: int | None = None) -> list[torch.Tensor]:
        """Normal numbers; `sizes` are those of images where they are symbolic."""
        generator = torch.Generator().manual_seed(self.results + len(self.kernel))
        of_images = sizes or tuple(size for size in self.sizes if isinstance(size, int))
        count = self.images if images is None else images
        shapes = (
            (count, self.channels, *of_images),
            self.weight_shape,
            (self.results, *[1] * len(self.kernel)),
        )
        return [torch.randn(s, generator=generator).to(torch_dtype(self.dtype)) for s in shapes]

    def exact(self, *tensors: torch.Tensor) -> torch.Tensor:
        """The convolution alone in float64. The margin's zeros are multiplied, but for transposed
        ones, where nothing is."""
        x, weight = (tensor.double() for tensor in tensors[:2])
        if "transpose" in self.operation:
            made = getattr(F, self.operation)(x, weight, **self.given)
        else:
            given = dict(self.given)
            padding = given.pop("padding", 0)
            margins = padding if isinstance(padding, tuple) else (padding,) * len(self.kernel)
            around = F.pad(x, [int(str(m)) for m in reversed(margins) for _ in range(2)])
            made = getattr(F, self.operation)(around, weight, **given)
        assert isinstance(made, torch.Tensor)
        return made


CASES: dict[str, Case] = {
    "one tap": Case("conv2d", 64, 48, (1, 1), (5, 8)),
    "one tap, a step of 2": Case("conv2d", 64, 64, (1, 1), (9, 7), {"stride": 2}, F16),
    "one tap and a margin": Case("conv2d", 64, 64, (1, 1), (3, 5), {"padding": (0, 1)}),
    "a margin": Case("conv2d", 64, 64, (3, 3), (6, 8), {"padding": 1}),
    "no margin": Case("conv2d", 64, 72, (3, 3), (7, 8), {}, F16),
    "margins that differ": Case("conv2d", 64, 64, (3, 5), (7, 9), {"padding": (2, 1)}),
    "more margin than kernel": Case("conv2d", 64, 64, (2, 2), (3, 3), {"padding": (3, 2)}),
    "a step of 2": Case("conv2d", 64, 64, (3, 3), (9, 14), {"stride": 2, "padding": 1}),
    "steps that differ": Case("conv2d", 64, 64, (3, 5), (8, 17), {"stride": (1, 3)}, F16),
    "taps apart": Case("conv2d", 64, 64, (3, 3), (9, 11), {"dilation": 2, "padding": 2}),
    "all that differs": Case(
        *("conv2d", 64, 64, (3, 2), (11, 9)),
        {"stride": (2, 1), "padding": (2, 0), "dilation": (1, 3)},
    ),
    "two chunks of channels": Case("conv2d", 128, 64, (2, 3), (6, 9), {"padding": (1, 0)}),
    "two tiles of results": Case("conv2d", 64, 136, (3, 3), (4, 5), {"padding": 1}),
    "many images": Case("conv2d", 64, 64, (3, 3), (3, 3), {"padding": 1}, images=5),
    "two tiles of pixels": Case("conv2d", 64, 40, (2, 2), (17, 18), images=1),
    "the greatest of the channels": Case(
        "conv2d", 64, 64, (3, 3), (5, 7), {"padding": 1}, BF16, over_channels("amax")
    ),
    "the greatest of many channels": Case(
        "conv2d", 64, 136, (3, 3), (3, 5), {"padding": 1}, F16, over_channels("amax")
    ),
    "planes": Case("conv3d", 64, 64, (2, 2, 3), (3, 4, 5), {"padding": (1, 0, 1)}),
    "planes apart": Case(
        *("conv3d", 64, 48, (2, 3, 1), (6, 5, 3)),
        {"stride": (2, 1, 1), "padding": (0, 1, 0), "dilation": (3, 1, 1)},
        F16,
    ),
    "transposed": Case("conv_transpose2d", 64, 64, (3, 3), (5, 4), {"padding": 1}),
    "transposed, no margin": Case("conv_transpose2d", 64, 48, (2, 3), (4, 5), {}, F16),
    "transposed, taps apart": Case(
        "conv_transpose2d", 128, 136, (3, 2), (4, 5), {"padding": (1, 0), "dilation": (1, 2)}
    ),
    "transposed planes": Case("conv_transpose3d", 64, 64, (2, 2, 3), (2, 3, 4), {"padding": 1}),
}
FOLLOWED: dict[str, Case] = {
    "a bias": Case("conv2d", 64, 48, (3, 3), (6, 8), {"padding": 1}, BF16, biased),
    "a bias, odd": Case("conv2d", 64, 136, (3, 3), (5, 7), {"padding": 1}, F16, biased),
    "a residual": Case("conv2d", 64, 64, (3, 3), (6, 8), {"padding": 1}, BF16, residual),
    "a residual, odd": Case("conv2d", 128, 128, (3, 3), (5, 7), {"padding": 1}, BF16, residual),
    "two results": Case("conv2d", 64, 64, (3, 3), (6, 8), {"padding": 1}, BF16, two_results),
    "two results in pairs": Case(
        "conv2d", 64, 136, (3, 3), (6, 5), {"padding": 1}, F16, two_results
    ),
    "two results, odd": Case("conv2d", 64, 48, (3, 3), (5, 7), {"padding": 1}, BF16, two_results),
    "extremes": Case("conv2d", 64, 64, (3, 3), (8, 8), {"padding": 1}, BF16, reduced("amax")),
    "extremes, odd": Case("conv2d", 64, 48, (3, 3), (5, 7), {"padding": 1}, F16, reduced("amax")),
    "extremes of many pixels": Case(
        "conv2d", 64, 48, (2, 2), (17, 17), {}, BF16, reduced("amax"), images=1
    ),
    "extremes of a part of a tile": Case(
        "conv2d", 64, 64, (2, 2), (13, 15), {}, BF16, reduced("amax"), images=1
    ),
    "extremes of 72 channels": Case("conv2d", 64, 72, (1, 2), (8, 17), {}, F16, reduced("amax")),
    "means": Case("conv2d", 64, 136, (3, 3), (8, 8), {"padding": 1}, BF16, reduced("mean")),
    "means, odd": Case("conv2d", 64, 64, (3, 3), (5, 7), {"padding": 1}, BF16, reduced("mean")),
    "a transposed one's residual": Case(
        "conv_transpose2d", 64, 64, (3, 3), (5, 7), {"padding": 1}, BF16, residual
    ),
}
SYMBOLIC: dict[str, Case] = {
    "symbolic": Case("conv2d", 64, 64, (3, 3), ("h", "w"), {"stride": (1, 2), "padding": 1}),
    "symbolic, extremes": Case(
        "conv2d", 64, 48, (3, 3), ("h", "w"), {"padding": 1}, F16, reduced("amax")
    ),
    "symbolic, residual": Case(
        "conv2d", 64, 64, (3, 3), ("h", "w"), {"padding": 1}, BF16, residual
    ),
}
# Those of few tiles, whose K is shared among blocks: through memory, or in a cluster. Transposed
# ones may need all of K for a sum that is made again, so theirs is not left in memory in parts.
SHARED: dict[str, Case] = {
    "through memory": Case(
        "conv2d", 512, 136, (3, 3), (4, 5), {"padding": 1}, BF16, biased, images=1, knows=True
    ),
    "in a cluster": Case(
        "conv2d", 512, 136, (3, 3), (5, 7), {"padding": 1}, BF16, biased, images=1, knows=True
    ),
    "transposed, in one block": Case(
        "conv_transpose2d", 512, 136, (3, 3), (4, 5), {"padding": 1}, images=1, knows=True
    ),
    "transposed, in a cluster": Case(
        "conv_transpose2d", 512, 136, (3, 3), (5, 7), {"padding": 1}, images=1, knows=True
    ),
}


def built(cases: Mapping[str, Case]) -> Iterator[dict[str, Kernels]]:
    """The kernels of all cases, each with a product of windows, however small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convolution_products, "_pays", lambda *given: True)
        patch.setattr(convolution_products, "_reads_few", lambda *given: False)
        made = build([case.graph() for case in cases.values()], check=True)
    for kernels in made:
        assert len(products(kernels)) == 1
    yield dict(zip(cases, made, strict=True))


def products(kernels: Kernels) -> list[ProductPlan]:
    """Those of windows."""
    steps = [step for step in kernels.plan.steps if isinstance(step, ProductPlan)]
    return [s for s in steps if any(isinstance(x, WindowLoad) for x in (s.left, s.right))]


@pytest.fixture(scope="module")
def plain() -> Iterator[dict[str, Kernels]]:
    yield from built(CASES)


@pytest.fixture(scope="module")
def followed() -> Iterator[dict[str, Kernels]]:
    yield from built(FOLLOWED)


@pytest.fixture(scope="module")
def symbolic() -> Iterator[dict[str, Kernels]]:
    yield from built(SYMBOLIC)


@pytest.fixture(scope="module")
def shared() -> Iterator[dict[str, Kernels]]:
    yield from built(SHARED)


def check(
    kernels: Kernels, case: Case, tensors: Sequence[torch.Tensor], form: str = TENSOR_CORES
) -> None:
    """The results under several orders of threads, against float64; a kernel's name has `form` in
    it.

    Products of 16 bits are exact in float32, and each of the additions errs by a unit of 2^-24 of
    what the terms add up to without their signs; twice as much where the tensor cores cut off. What
    follows makes no error greater, and adds two terms. Storing a result, or what a reduction reads,
    costs half a unit of its dtype each time.
    """
    one = case.graph()
    sizes = kernels.sizes(tensors)
    exact = evaluate(one.roots, wide(one, tensors), sizes)
    terms = evaluate(one.roots, wide(one, [t.abs() for t in tensors]), sizes)
    count = case.channels * math.prod(case.kernel) + 2
    eps = torch.finfo(torch_dtype(case.dtype)).eps
    first: list[torch.Tensor] | None = None
    for seed in SEEDS:
        emulator_runtime().take_launched()
        found = kernels(*tensors, seed=seed, check=True)
        assert any(form in name for name in emulator_runtime().take_launched())
        for actual, expected, around in zip(found, exact, terms, strict=True):
            allowed = 2 * count * 2.0**-24 * around + eps * expected.abs()
            error = (actual.double() - expected).abs()
            assert actual.shape == expected.shape
            assert bool((error <= allowed).all()), (error - allowed).max()
        assert first is None or all(map(torch.equal, found, first))
        first = found


def wide(one: Graph, tensors: Sequence[torch.Tensor]) -> dict[Node, torch.Tensor]:
    return dict(zip(one.inputs, (tensor.double() for tensor in tensors), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_every_window(plain: dict[str, Kernels], name: str) -> None:
    check(plain[name], CASES[name], CASES[name].tensors())


@pytest.mark.parametrize("name", FOLLOWED)
def test_what_follows(followed: dict[str, Kernels], name: str) -> None:
    check(followed[name], FOLLOWED[name], FOLLOWED[name].tensors())


@pytest.mark.parametrize("name", SYMBOLIC)
@pytest.mark.parametrize("sizes", [(1, 1), (5, 7), (4, 16), (17, 18)])
@pytest.mark.parametrize("images", [1, 3])
def test_sizes_known_at_run_time(
    symbolic: dict[str, Kernels], name: str, sizes: tuple[int, ...], images: int
) -> None:
    check(symbolic[name], SYMBOLIC[name], SYMBOLIC[name].tensors(sizes, images))


@pytest.mark.parametrize("name", SHARED)
def test_blocks_share_a_long_depth(shared: dict[str, Kernels], name: str) -> None:
    (product,) = products(shared[name])
    assert any(form.shared for form in product.tensor_forms) is (name == "through memory")
    forms = {
        "through memory": "_shared_tensor_kernel",
        "transposed, in one block": "_tensor_kernel",
    }
    form = forms.get(name, "_by_4_tensor_kernel")
    check(shared[name], SHARED[name], SHARED[name].tensors(), form)


def on_tiles(plan: ModulePlan, columns: int) -> ModulePlan:
    """The plan with its product on tiles of so many columns."""

    def alone(cores: WgmmaForm | None) -> WgmmaForm:
        assert cores is not None
        return replace(on_kind(cores, TileKind(columns)), wave=None)

    steps = (
        replace(step, tensor_cores=alone(step.tensor_cores), alternatives=())
        if isinstance(step, ProductPlan)
        else step
        for step in plan.steps
    )
    return replace(plan, steps=tuple(steps))


def test_tiles_of_every_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 64 rows and of 128; whole vectors of columns, and an odd number of them."""
    monkeypatch.setattr(convolution_products, "_pays", lambda *given: True)
    monkeypatch.setattr(convolution_products, "_reads_few", lambda *given: False)
    few = Case("conv2d", 64, 64, (2, 1), ("h", "w"), follows=biased)
    many = replace(few, results=72, dtype=F16)
    tiles = [(few, width) for width in STAGES_BESIDE] + [(many, width) for width in STAGES]
    plans = [on_tiles(planned(case.graph()), width) for case, width in tiles]
    for (case, width), kernels in zip(tiles, link(plans, check=True), strict=True):
        for sizes in ((18, 17), (11, 8)):
            form = f"_{width}_tensor_kernel"
            check(kernels, case, case.tensors(sizes, images=1), form=form)


def test_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result that is read by a second convolution, and added to what that gives; several images
    share a tile's rows. Rounding the first one costs the second half a unit of its terms."""
    monkeypatch.setattr(convolution_products, "_pays", lambda *given: True)
    monkeypatch.setattr(convolution_products, "_reads_few", lambda *given: False)
    x, weight = (value(n, *s, dtype=BF16) for n, s in (("x", ("n", 64, 5, 7)), ("w", WEIGHT)))
    between = relu(apply("conv2d", x, weight, padding=1))
    one = graph([x, weight], add(apply("conv2d", between, weight, padding=1), between))
    (kernels,) = build([one], check=True)
    assert len(products(kernels)) == 2
    case = Case("conv2d", 64, 64, (3, 3), (5, 7), images=5)
    tensors = [case.tensors()[0], case.tensors()[1] / 24]
    (exact,) = evaluate(one.roots, wide(one, tensors), {"n": 5})
    (terms,) = evaluate(one.roots, wide(one, [t.abs() for t in tensors]), {"n": 5})
    for seed in SEEDS:
        emulator_runtime().take_launched()
        (found,) = kernels(*tensors, seed=seed, check=True)
        launched = emulator_runtime().take_launched()
        assert sum(TENSOR_CORES in name for name in launched) == 2
        allowed = (4 * 64 * 9 * 2.0**-24 + torch.finfo(torch.bfloat16).eps) * terms
        assert bool(((found.double() - exact).abs() <= allowed).all())


def channels_last(x: torch.Tensor) -> torch.Tensor:
    return x.to(memory_format=torch.channels_last)


def unaligned(x: torch.Tensor) -> torch.Tensor:
    return torch.empty(x.numel() + 1, dtype=x.dtype)[1:].view(x.shape).copy_(x)


def repeated(x: torch.Tensor) -> torch.Tensor:
    return x[:1].expand_as(x)


@pytest.mark.parametrize("layout", [channels_last, unaligned, repeated])
@pytest.mark.parametrize("name", ["one tap", "one tap, a step of 2", "a step of 2"])
def test_operands_that_lie_in_memory_otherwise(
    plain: dict[str, Kernels], name: str, layout: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    """A weight of one tap is read where it is; others are copied."""
    x, weight, bias = CASES[name].tensors()
    form = "kernel" if "one tap" in name and layout is unaligned else TENSOR_CORES
    check(plain[name], CASES[name], [layout(x), layout(weight), bias], form)


def test_no_images(symbolic: dict[str, Kernels]) -> None:
    case = SYMBOLIC["symbolic"]
    (found,) = symbolic["symbolic"](*case.tensors((4, 6), images=0), check=True)
    assert found.shape == (0, 64, 4, 3)


@pytest.fixture
def ampere() -> Iterator[None]:
    """Launchers see a device without copies of windows."""
    emulator_runtime().set_capability(8)
    yield
    emulator_runtime().set_capability(9)


@pytest.mark.usefixtures("ampere")
@pytest.mark.parametrize("name", ["all that differs", "planes apart", "transposed, taps apart"])
def test_the_plain_tile(plain: dict[str, Kernels], name: str) -> None:
    check(plain[name], CASES[name], CASES[name].tensors(), form="kernel<")


def check_classes(kernels: Kernels, case: Case, tensors: Sequence[torch.Tensor]) -> None:
    """NaN and each infinity stand where float64 has them, and what is finite is near."""
    exact = case.exact(*tensors).to(torch_dtype(case.dtype))
    is_finite = exact.isfinite()
    assert is_finite.any() and not is_finite.all()
    for seed in SEEDS:
        (found,) = kernels(*tensors, seed=seed, check=True)
        assert torch.equal(found.isnan(), exact.isnan())
        assert torch.equal(found.isposinf(), exact.isposinf())
        assert torch.equal(found.isneginf(), exact.isneginf())
        torch.testing.assert_close(found[is_finite], exact[is_finite], atol=0.1, rtol=0.02)


@pytest.mark.parametrize("special", [INFINITY, -INFINITY, NAN])
@pytest.mark.parametrize(
    "name", ["a margin", "no margin", "taps apart", "two tiles of results", "planes"]
)
def test_special_values(plain: dict[str, Kernels], name: str, special: float) -> None:
    case = CASES[name]
    x, weight, bias = case.tensors()
    x[0, 5].view(-1)[0] = special
    x[1, 63].view(-1)[-2] = special
    check_classes(plain[name], case, [x, weight, bias])


def test_an_infinite_weight_meets_the_zeros_of_a_margin(plain: dict[str, Kernels]) -> None:
    case = CASES["a margin"]
    x, weight, bias = case.tensors()
    weight[3, 7, 0, 0] = INFINITY
    check_classes(plain["a margin"], case, [x, weight, bias])


@pytest.fixture(params=["hopper", "plain tile"])
def each_form(request: pytest.FixtureRequest) -> Iterator[None]:
    """A device with copies of windows, and one without."""
    emulator_runtime().set_capability(9 if request.param == "hopper" else 8)
    yield
    emulator_runtime().set_capability(9)


@pytest.mark.usefixtures("each_form")
@pytest.mark.parametrize("name", [name for name in CASES if "transposed" in name])
@pytest.mark.parametrize("special", [INFINITY, NAN])
def test_transposed_ones_multiply_no_zeros_around_an_image(
    plain: dict[str, Kernels], name: str, special: float
) -> None:
    """The first tap reaches beyond one end of an image and the last one beyond the other."""
    case = CASES[name]
    x, weight, bias = case.tensors()
    weight[7, 3].view(-1)[0] = special
    weight[60, 47].view(-1)[-1] = -special
    check_classes(plain[name], case, [x, weight, bias])


@pytest.mark.parametrize("special", [INFINITY, NAN])
@pytest.mark.parametrize("name", [name for name in SHARED if "transposed" in name])
def test_transposed_ones_whose_depth_is_shared_multiply_no_zeros_around_an_image(
    shared: dict[str, Kernels], name: str, special: float
) -> None:
    case = SHARED[name]
    x, weight, bias = case.tensors()
    weight[7, 3].view(-1)[0] = special
    weight[460, 47].view(-1)[-1] = -special
    check_classes(shared[name], case, [x, weight, bias])


@pytest.mark.usefixtures("each_form")
def test_infinities_that_meet_in_a_transposed_one(plain: dict[str, Kernels]) -> None:
    """A sum that is NaN because of what it has part in stays so, even beside the zeros around."""
    case = CASES["transposed"]
    x, weight, bias = case.tensors()
    weight[7, 3, 0, 0] = INFINITY
    weight[8, 3, 2, 2] = INFINITY
    x[0, 7, 0, 0] = 0.0
    x[1, 8, 2, 1] = -INFINITY
    check_classes(plain["transposed"], case, [x, weight, bias])


@pytest.mark.parametrize("special", [INFINITY, NAN])
def test_transposed_ones_with_their_channels_last_multiply_no_zeros_around_an_image(
    special: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second convolution, of one tap, reads the result. Where the special weights have no part,
    sums err as in `check`, and storing costs half a unit of what it reads and of what it gives."""
    monkeypatch.setattr(convolution_products, "_pays", lambda *given: True)
    monkeypatch.setattr(convolution_products, "_reads_few", lambda *given: False)
    shapes: dict[str, tuple[Size, ...]] = {
        "x": ("n", 64, 5, 7),
        "weight": WEIGHT,
        "last": (64, 64, 1, 1),
    }
    inputs = x, weight, last = [value(name, *s, dtype=BF16) for name, s in shapes.items()]
    between = relu(apply("conv_transpose2d", x, weight, padding=1))
    (kernels,) = build([graph(inputs, apply("conv2d", between, last))], check=True)
    assert len(products(kernels)) == 2
    case = Case("conv_transpose2d", 64, 64, (3, 3), (5, 7), {"padding": 1}, images=3)
    tensors = [*case.tensors()[:2], case.tensors()[1][:, :, :1, :1]]
    tensors[1][7, 3, 0, 0] = tensors[1][60, 47, 2, 2] = 0.0
    after = tensors[2].double().abs()
    terms = F.conv2d(case.exact(*(tensor.abs() for tensor in tensors)), after)
    rounded = F.conv2d(case.exact(*tensors).relu(), after)
    tensors[1][7, 3, 0, 0], tensors[1][60, 47, 2, 2] = special, -special
    exact = F.conv2d(case.exact(*tensors).relu(), tensors[2].double())
    is_finite = exact.isfinite()
    assert is_finite.any() and not is_finite.all()
    eps = torch.finfo(torch.bfloat16).eps
    allowed = 4 * 64 * 9 * 2.0**-24 * terms + eps / 2 * rounded + eps * exact.abs()
    for seed in SEEDS:
        (found,) = kernels(*tensors, seed=seed, check=True)
        assert torch.equal(found.isnan(), exact.isnan())
        assert torch.equal(found.isposinf(), exact.isposinf())
        assert torch.equal(found.isneginf(), exact.isneginf())
        error = (found.double() - exact).abs()
        assert bool((error <= allowed)[is_finite].all())
