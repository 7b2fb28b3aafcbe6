"""Faults of other compilers in gradients: each with its whole kind."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch.nn import functional as F

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Node
from tests.emulated import apply, graph, value
from tests.gradients import autograd_gradients
from tests.ops.examples import FLOATS, torch_dtype
from tests.trained import compare, gradients_of, trained

INF = float("inf")


def slopes(
    name: str, values: Sequence[float], dtype: DType = DType.FLOAT32, **attributes: object
) -> torch.Tensor:
    """The gradient of an elementwise function at given values."""
    x = value("x", len(values), dtype=dtype)
    tensor = torch.tensor(values, dtype=torch_dtype(dtype))
    return gradients_of(apply(name, x, **attributes), [x], tensor)[0]


def assert_as_autograd(root: Node, inputs: Sequence[Node], *tensors: torch.Tensor) -> None:
    """Compare the kernels' gradients with PyTorch's, of the result's sum."""
    model = graph(inputs, root)
    values = dict(zip(inputs, tensors, strict=True))
    found = gradients_of(root, inputs, *tensors)
    shape = [size.constant or 0 for size in root.shape]
    upstream = [torch.ones(shape, dtype=torch_dtype(root.dtype))]
    expected = autograd_gradients(model, values, upstream)
    for node, gradient in zip(inputs, found, strict=True):
        torch.testing.assert_close(gradient, expected[node], equal_nan=True)


@pytest.mark.parametrize("dtype", FLOATS)
def test_n04_the_gradient_of_logsumexp_beside_minus_infinity(dtype: DType) -> None:
    x = value("x", 2, 2, dtype=dtype)
    rows = torch.tensor([[-INF, 2.0], [-INF, -INF]], dtype=torch_dtype(dtype))
    (found,) = gradients_of(apply("logsumexp", x, dim=1), [x], rows)
    assert found[0].tolist() == [0.0, 1.0]
    assert found[1].isnan().all()  # as eager's: no element is the greater


@pytest.mark.parametrize("dtype", FLOATS)
def test_n10_softplus_has_slope_1_in_the_tail(dtype: DType) -> None:
    found = slopes("softplus", [4.1, 18.0, 100.0, 1e4], dtype, beta=5.0)
    torch.testing.assert_close(found, torch.ones(4, dtype=torch_dtype(dtype)))
    assert slopes("softplus", [-1e4, -1e3], dtype, beta=5.0).tolist() == [0.0, 0.0]
    kinked = slopes("softplus", [1.0, 2.0, 4.0], dtype, beta=1.0, threshold=2.0)
    expected = torch.tensor([1.0, 2.0, 99.0]).sigmoid().to(torch_dtype(dtype))
    torch.testing.assert_close(kinked[:2], expected[:2])
    assert kinked[2] == 1


@pytest.mark.parametrize("name", ["mish", "silu", "gelu", "elu", "logsigmoid", "tanh", "sigmoid"])
def test_n11_slopes_far_out_are_finite(name: str) -> None:
    values = [-1e4, -100.0, -20.0, 20.0, 88.0, 1e4]
    found = slopes(name, values)
    x = torch.tensor(values, requires_grad=True)
    function = getattr(F, name)
    (expected,) = torch.autograd.grad(function(x).sum(), x)
    assert not found.isnan().any()
    torch.testing.assert_close(found, expected, rtol=2e-6, atol=1e-37)
    if name == "mish":
        assert found[-1] == 1


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_n13_the_slope_of_gelu_keeps_its_sign_in_the_left_tail(approximate: str) -> None:
    values = [-3.7, -4.5, -5.0, -7.0]
    found = slopes("gelu", values, approximate=approximate)
    x = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    (expected,) = torch.autograd.grad(F.gelu(x, approximate=approximate).sum(), x)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-14)
    if approximate == "none":
        assert abs(float(found[0]) + 0.001464) < 1e-6


KINKS: dict[str, dict[str, object]] = {
    "relu": {},
    "relu6": {},
    "leaky_relu": {"negative_slope": 0.2},
    "elu": {"alpha": 0.5},
    "celu": {"alpha": 0.5},
    "selu": {},
    "hardtanh": {"min_val": -3.0, "max_val": 3.0},
    "hardsigmoid": {},
    "hardswish": {},
    "hardshrink": {"lambd": 3.0},
    "softshrink": {"lambd": 3.0},
    "threshold": {"threshold": 3.0, "value": 1.0},
    "abs": {},
}


@pytest.mark.parametrize("name", sorted(KINKS))
def test_n16_slopes_at_kinks(name: str) -> None:
    values = [-6.0, -3.0, -1.0, -0.0, 0.0, 1.0, 3.0, 6.0]
    found = slopes(name, values, **KINKS[name])
    x = torch.tensor(values, requires_grad=True)
    function = torch.abs if name == "abs" else getattr(F, name)
    (expected,) = torch.autograd.grad(function(x, **KINKS[name]).sum(), x)
    torch.testing.assert_close(found, expected, rtol=2e-7, atol=0)


@pytest.mark.parametrize("bounds", [(-3.0, 3.0), (None, 3.0), (-3.0, None), (3.0, -3.0)])
def test_n16_slopes_of_clamp_at_its_bounds(bounds: tuple[float | None, float | None]) -> None:
    x = value("x", 6)
    values = torch.tensor([-6.0, -3.0, 0.0, 3.0, 6.0, float("nan")])
    assert_as_autograd(apply("clamp", x, *bounds), [x], values)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_n16_equals_share_the_gradient_of_an_extreme(name: str) -> None:
    x, y = value("x", 5), value("y", 5)
    first = torch.tensor([1.0, 2.0, 3.0, float("nan"), 0.0])
    second = torch.tensor([1.0, 3.0, 2.0, 0.0, float("nan")])
    assert_as_autograd(apply(name, x, y), [x, y], first, second)


@pytest.mark.parametrize("dtype", [DType.BFLOAT16, DType.FLOAT16, DType.FLOAT32])
@pytest.mark.parametrize("name", ["amax", "amin"])
def test_n21_rounding_hides_no_extreme(name: str, dtype: DType) -> None:
    """What is compared with the stored extreme is rounded as it was."""
    x, scale = value("x", 64, 33, dtype=dtype), value("scale", 64, 1, dtype=dtype)
    root = apply(name, apply("div", x, scale), dim=1)
    generator = torch.Generator().manual_seed(5)
    tensor = torch.randn(64, 33, generator=generator).to(torch_dtype(dtype))
    divisor = torch.full((64, 1), 3.0, dtype=torch_dtype(dtype))
    (found, _) = gradients_of(root, [x, scale], tensor, divisor)
    sums = found.double().sum(1)
    torch.testing.assert_close(sums, torch.full((64,), 1 / 3).double(), rtol=1e-2, atol=0)


def test_n21_equal_elements_share_the_gradient_of_the_greatest() -> None:
    x = value("x", 2, 4)
    rows = torch.tensor([[1.0, 5.0, 5.0, 0.0], [2.0, 2.0, 2.0, 2.0]])
    (found,) = gradients_of(apply("amax", x, dim=1), [x], rows)
    assert found.tolist() == [[0, 0.5, 0.5, 0], [0.25] * 4]


@pytest.mark.parametrize("dtype", FLOATS)
def test_n23_the_gradient_of_a_set_of_one_element_is_0(dtype: DType) -> None:
    x = value("x", 2, 4, 1, 1, dtype=dtype)
    weight, bias = value("w", 4, dtype=dtype), value("b", 4, dtype=dtype)
    generator = torch.Generator().manual_seed(3)
    tensors = [
        torch.randn(shape, generator=generator).to(torch_dtype(dtype))
        for shape in ((2, 4, 1, 1), (4,), (4,), (2, 4, 1, 1))
    ]
    root = apply("group_norm", x, weight, bias, num_groups=4)
    found = gradients_of(root, [x, weight, bias], *tensors[:3], upstream=tensors[3])
    assert not found[0].any() and not found[1].any()
    torch.testing.assert_close(found[2], tensors[3].sum((0, 2, 3)))


@pytest.mark.parametrize("name", ["std", "var", "norm"])
def test_n23_the_gradient_of_a_constant_row(name: str) -> None:
    x = value("x", 3, 5)
    rows = torch.tensor([[0.0] * 5, [0.1] * 5, [1.0, 2.0, 3.0, 4.0, 5.0]])
    assert_as_autograd(apply(name, x, dim=1), [x], rows)


@pytest.mark.parametrize("shape", [(2, 6, 5, 7), (3, 6), (2, 6, 4), (2, 6, 2, 3, 2)])
def test_n27_every_gradient_of_a_group_norm_of_any_rank(shape: tuple[int, ...]) -> None:
    x, weight, bias = value("x", *shape), value("w", 6), value("b", 6)
    (made,) = trained(
        [graph([x, weight, bias], apply("group_norm", x, weight, bias, num_groups=3))]
    )
    generator = torch.Generator().manual_seed(9)
    compare(made, [torch.randn(s, generator=generator) for s in (shape, (6,), (6,))], {})


@pytest.mark.parametrize("rows", [1, 31, 1025])
def test_n28_all_rows_are_in_the_weight_gradient(rows: int) -> None:
    x, weight, bias = value("x", "n", 32), value("w", 32), value("b", 32)
    root = apply("layer_norm", x, weight, bias, normalized_shape=(32,))
    (made,) = trained([graph([x, weight, bias], root)])
    generator = torch.Generator().manual_seed(rows)
    shapes = ((rows, 32), (32,), (32,))
    compare(made, [torch.randn(s, generator=generator) for s in shapes], {"n": rows})


def test_n36_a_bias_gradient_is_summed_over_all_leading_dims() -> None:
    x, weight, bias = value("x", 2, 5, 8), value("w", 6, 8), value("b", 6)
    (made,) = trained([graph([x, weight, bias], apply("linear", x, weight, bias))])
    generator = torch.Generator().manual_seed(4)
    compare(made, [torch.randn(s, generator=generator) for s in ((2, 5, 8), (6, 8), (6,))], {})


def test_l38_a_gradient_that_is_one_number_repeated() -> None:
    x, weight = value("x", 7, 9), value("w", 9)
    root = apply("mul", apply("softmax", x, dim=1), weight)
    generator = torch.Generator().manual_seed(6)
    tensors = [torch.randn(shape, generator=generator) for shape in ((7, 9), (9,))]
    whole = gradients_of(root, [x, weight], *tensors, upstream=torch.full((7, 9), 0.5))
    once = gradients_of(root, [x, weight], *tensors, upstream=torch.tensor(0.5).expand(7, 9))
    turned = torch.full((9, 7), 0.5).t()
    other = gradients_of(root, [x, weight], *tensors, upstream=turned)
    for expected, found, same in zip(whole, once, other, strict=True):
        assert torch.equal(expected, found) and torch.equal(expected, same)


def test_l42_the_gradients_of_an_empty_batch_are_0() -> None:
    x, weight, bias = value("x", "n", 8), value("w", 6, 8), value("b", 6)
    root = apply("gelu", apply("linear", x, weight, bias))
    tensors = [torch.empty(0, 8), torch.ones(6, 8), torch.ones(6)]
    found = gradients_of(root, [x, weight, bias], *tensors)
    assert found[0].shape == (0, 8)
    assert found[1].tolist() == [[0.0] * 8] * 6 and found[2].tolist() == [0.0] * 6
