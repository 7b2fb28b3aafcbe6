"""Convolutions of few channels: accuracy, special values and edges."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph
from fusegen.plan.kernels.convolution import ConvolutionPlan
from tests.emulated import Kernels, apply, build, graph, run, value
from tests.ops.examples import torch_dtype

INFINITY, NAN = float("inf"), float("nan")
TAPS = 9


def convolution(channels: int, results: int, dtype: DType = DType.FLOAT32) -> Graph:
    x = value("x", "n", channels, "h", "w", dtype=dtype)
    weight = value("weight", results, channels, 3, 3, dtype=dtype)
    return graph([x, weight], apply("conv2d", x, weight, padding=1))


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    (made,) = build([convolution(5, 6)], check=True)
    assert isinstance(made.plan.steps[0], ConvolutionPlan)
    return made


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def check_each_element(kernels: Kernels, x: torch.Tensor, weight: torch.Tensor) -> None:
    """Each element is as near as its own terms allow.

    Two float16 hold 22 bits of a number, so a product errs by 3 units of 2^-22: once for either
    factor, once for the product of both low parts, which is left out. Each of the additions and
    the products outside the tensor cores err by half a unit of 2^-23, or half of the least number.
    """
    (found,) = kernels(x, weight, check=True)
    exact = F.conv2d(x.double(), weight.double(), padding=1)
    terms = F.conv2d(x.double().abs(), weight.double().abs(), padding=1)
    count = x.shape[1] * TAPS
    allowed = terms * (3 * 2.0**-22 + 2 * count * 2.0**-24) + count * 2.0**-149
    assert bool(((found.double() - exact).abs() <= allowed).all())


def test_numbers_of_one_size(kernels: Kernels) -> None:
    check_each_element(kernels, normal(2, 5, 7, 9), normal(6, 5, 3, 3, seed=1))


@pytest.mark.parametrize("factor", [1e-44, 1e-38, 1e-20, 1e-9, 1e9, 1e20, 1e35])
def test_numbers_of_any_size(kernels: Kernels, factor: float) -> None:
    x, weight = normal(1, 5, 7, 9), normal(6, 5, 3, 3, seed=1)
    check_each_element(kernels, x * factor, weight)
    check_each_element(kernels, x, weight * min(factor, 1e30))


def test_numbers_far_apart(kernels: Kernels) -> None:
    x, weight = normal(3, 5, 7, 9), normal(6, 5, 3, 3, seed=1)
    x[0, 2, 3, 4] = 1e25  # one great number, whose neighbours are as near as ever
    x[1] *= torch.logspace(-30, 8, 63).view(7, 9)
    x[2, :, :3] = 0.0
    weight[3] *= 1e-12
    check_each_element(kernels, x, weight)


def test_zeros(kernels: Kernels) -> None:
    nothing = torch.zeros(1, 5, 4, 4)
    (found,) = kernels(nothing, normal(6, 5, 3, 3), check=True)
    assert torch.equal(found, torch.zeros(1, 6, 4, 4))
    (found,) = kernels(normal(1, 5, 4, 4), torch.zeros(6, 5, 3, 3), check=True)
    assert torch.equal(found, torch.zeros(1, 6, 4, 4))


@pytest.mark.parametrize("special", [INFINITY, -INFINITY, NAN])
def test_special_values_reach_what_reads_them(kernels: Kernels, special: float) -> None:
    x, weight = normal(2, 5, 6, 8), normal(6, 5, 3, 3, seed=1)
    x[0, 1, 2, 3] = special
    x[1, 4, 0, 0] = special
    (found,) = kernels(x, weight, check=True)
    torch.testing.assert_close(
        found, F.conv2d(x, weight, padding=1), equal_nan=True, atol=1e-5, rtol=1e-5
    )
    weight[2, 3, 1, 1] = special
    (found,) = kernels(normal(2, 5, 6, 8), weight, check=True)
    expected = F.conv2d(normal(2, 5, 6, 8), weight, padding=1)
    torch.testing.assert_close(found, expected, equal_nan=True, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16])
def test_special_values_in_16_bits(dtype: DType) -> None:
    """The channels and taps that fill up a fragment are zeros on both sides. The reference is in
    float64: PyTorch's own in bfloat16 multiplies NaN by such zeros on some processors."""
    tensors = [t.to(torch_dtype(dtype)) for t in (normal(1, 3, 6, 8), normal(5, 3, 3, 3, seed=1))]
    tensors[0][0, 1, 2, 3] = INFINITY
    tensors[0][0, 0, 5, 7] = NAN
    (found,) = run(convolution(3, 5, dtype), tensors, check=True)
    expected = F.conv2d(*(t.double() for t in tensors), padding=1).to(torch_dtype(dtype))
    tolerance = 4 * torch.finfo(torch_dtype(dtype)).eps
    torch.testing.assert_close(found, expected, equal_nan=True, atol=tolerance, rtol=tolerance)


BF16, F16, F32 = DType.BFLOAT16, DType.FLOAT16, DType.FLOAT32
# An operation, channels of the input and the result, the kernel, the input's sizes, a dtype, and
# arguments.
OF_PLANES_OR_SPREAD = [
    ("conv3d", 3, 16, (3, 3, 3), (5, 6, 9), BF16, {"padding": 1}),
    ("conv3d", 8, 20, (2, 3, 3), (5, 9, 11), BF16, {"stride": (2, 1, 2), "padding": (1, 0, 1)}),
    ("conv3d", 12, 4, (3, 1, 2), (7, 5, 8), F16, {"dilation": (2, 1, 1)}),
    ("conv3d", 1, 3, (4, 2, 2), (7, 5, 8), F32, {"padding": (2, 0, 1)}),
    ("conv3d", 2, 33, (3, 2, 2), (7, 5, 8), F32, {"stride": (1, 2, 1)}),
    ("conv_transpose2d", 8, 20, (3, 3), (5, 7), F32, {"padding": 1}),
    ("conv_transpose2d", 3, 20, (4, 4), (5, 7), BF16, {"stride": 2, "padding": 1}),
    ("conv_transpose2d", 12, 20, (3, 3), (5, 7), F32, {"stride": (2, 1), "output_padding": (1, 0)}),
    ("conv_transpose2d", 16, 6, (4, 4), (3, 70), F16, {"stride": 2}),
    ("conv_transpose3d", 3, 16, (3, 3, 3), (4, 5, 6), BF16, {"stride": 2, "padding": 1}),
    ("conv_transpose3d", 3, 4, (3, 3, 3), (4, 5, 6), F32, {"stride": 2, "output_padding": 1}),
    (
        "conv_transpose3d",
        *(5, 3, (2, 3, 2), (4, 5, 6), F16),
        {"stride": (1, 2, 3), "padding": (0, 1, 0), "dilation": (2, 1, 2)},
    ),
]


@pytest.fixture(scope="module")
def of_planes_or_spread() -> list[Kernels]:
    graphs = []
    for name, channels, results, kernel, sizes, dtype, given in OF_PLANES_OR_SPREAD:
        dims = "dhw"[-len(sizes) :]
        shape = (channels, results) if "transpose" in name else (results, channels)
        x = value("x", "n", channels, *dims, dtype=dtype)
        weight = value("weight", *shape, *kernel, dtype=dtype)
        graphs.append(graph([x, weight], apply(name, x, weight, **given)))
    made = build(graphs, check=True)
    assert all(isinstance(each.plan.steps[0], ConvolutionPlan) for each in made)
    return made


@pytest.mark.parametrize("number", range(len(OF_PLANES_OR_SPREAD)))
def test_planes_and_inputs_that_are_spread_out(
    of_planes_or_spread: list[Kernels], number: int
) -> None:
    name, channels, results, kernel, sizes, dtype, given = OF_PLANES_OR_SPREAD[number]
    of = getattr(F, name)
    shape = (channels, results) if "transpose" in name else (results, channels)
    x = normal(2, channels, *sizes, seed=number).to(torch_dtype(dtype))
    weight = normal(*shape, *kernel, seed=100 + number).to(torch_dtype(dtype))
    (found,) = of_planes_or_spread[number](x, weight, check=True)
    exact = of(x.double(), weight.double(), **given)
    terms = of(x.double().abs(), weight.double().abs(), **given)
    count = channels * math.prod(kernel)
    # As `check_each_element` has it; 16 bits are exact there, their sums and results are rounded.
    allowed = terms * (3 * 2.0**-22 + 2 * count * 2.0**-24) + 2.0**-40
    if dtype is not F32:
        allowed += exact.abs() * torch.finfo(torch_dtype(dtype)).eps
    assert found.shape == exact.shape
    assert bool(((found.double() - exact).abs() <= allowed).all())


@pytest.mark.parametrize("special", [INFINITY, NAN])
@pytest.mark.parametrize(
    "number",
    [
        i
        for i, case in enumerate(OF_PLANES_OR_SPREAD)
        if "padding" not in case[-1] or "trans" in case[0]
    ],
)
def test_special_values_do_not_meet_zeros_where_no_element_has_part(
    of_planes_or_spread: list[Kernels], number: int, special: float
) -> None:
    """An infinite weight times a zero that stands for no element would be NaN; those of a plain
    convolution's margin are multiplied."""
    name, channels, results, kernel, sizes, dtype, given = OF_PLANES_OR_SPREAD[number]
    shape = (channels, results) if "transpose" in name else (results, channels)
    x = normal(2, channels, *sizes).to(torch_dtype(dtype))
    weight = normal(*shape, *kernel, seed=1).to(torch_dtype(dtype))
    weight[1, 1].view(-1)[1] = special
    x[0, 0].view(-1)[7] = special
    (found,) = of_planes_or_spread[number](x, weight, check=True)
    exact = getattr(F, name)(x.double(), weight.double(), **given)
    assert torch.equal(found.isnan(), exact.isnan())
    assert torch.equal(found.isinf(), exact.isinf())


def test_a_norm_behind_planes() -> None:
    x, weight = value("x", "n", 3, 4, "h", "w"), value("weight", 8, 3, 2, 3, 3)
    active = apply("sigmoid", apply("conv3d", x, weight))
    chain = graph([x, weight], apply("group_norm", active, num_groups=4))
    tensors = normal(2, 3, 4, 9, 21), normal(8, 3, 2, 3, 3, seed=1)
    (made,) = build([chain], check=True)
    assert sum(isinstance(step, ConvolutionPlan) for step in made.plan.steps) == 2
    (found,) = made(*tensors, check=True)
    exact = F.group_norm(torch.sigmoid(F.conv3d(*(t.double() for t in tensors))), 4)
    # The convolution's bound, a quarter of it behind the sigmoid, over a deviation of 0.4 allows
    # 1e-4 and more if all 54 terms err the same way: they do not, and a wrong tap would be 1e-1.
    torch.testing.assert_close(found.double(), exact, atol=1e-5, rtol=1e-5)


def test_an_empty_batch(kernels: Kernels) -> None:
    (found,) = kernels(torch.empty(0, 5, 7, 9), normal(6, 5, 3, 3), check=True)
    assert found.shape == (0, 6, 7, 9)


def test_equal_values_are_normalised_to_zero() -> None:
    x, weight = value("x", "n", 3, "h", "w"), value("weight", 4, 3, 2, 2)
    bias = value("bias", 4)
    active = apply("sigmoid", apply("conv2d", x, weight, bias))
    chain = graph([x, weight, bias], apply("instance_norm", active))
    tensors = normal(2, 3, 10, 23), torch.zeros(4, 3, 2, 2), normal(4, seed=2)
    (found,) = run(chain, tensors, check=True)
    assert torch.equal(found, torch.zeros(2, 4, 9, 22))


def test_statistics_of_numbers_that_lie_close_together() -> None:
    """The standard deviation is a millionth of the mean: squares would cancel all digits."""
    x, weight = value("x", "n", 1, "h", "w"), value("weight", 2, 1, 1, 1)
    chain = graph([x, weight], apply("group_norm", apply("conv2d", x, weight), num_groups=2))
    tensors = 1e4 + 0.01 * normal(1, 1, 12, 23), torch.ones(2, 1, 1, 1)
    (found,) = run(chain, tensors, check=True)
    exact = F.group_norm(F.conv2d(*(t.double() for t in tensors)), 2)
    assert abs(float(found.std()) - float(exact.std())) < 0.05
