"""Values that fused code is known to get wrong, through the primitive operations."""

from __future__ import annotations

import math

import pytest
import torch

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import AttributeValue, Graph, Output
from fusegen.ops.construct import call
from fusegen.ops.record import Record
from fusegen.ops.registry import FUNCTIONS
from fusegen.passes.decompose import decompose
from tests.ops.examples import fixed, placeholder
from tests.reference import evaluate

NAN, INF = math.nan, math.inf


def run(name: str, *values: torch.Tensor, **attributes: AttributeValue) -> torch.Tensor:
    """A function of tensors, written out in primitives and evaluated in their dtypes."""
    record = FUNCTIONS[name]
    assert isinstance(record, Record)
    dtypes = [DType(str(v.dtype).removeprefix("torch.")) for v in values]
    inputs = [placeholder(fixed(v.shape, d)) for v, d in zip(values, dtypes, strict=True)]
    node = call(record, inputs, **attributes)
    plain = decompose(Graph("g", tuple(inputs), (), (Output("y", node),)))
    (result,) = evaluate(plain.roots, dict(zip(inputs, values, strict=True)))
    return result


def equal(actual: torch.Tensor, expected: float | list[float]) -> None:
    """The same numbers, NaN included."""
    torch.testing.assert_close(
        actual, torch.tensor(expected, dtype=actual.dtype), rtol=0, atol=0, equal_nan=True
    )


def test_softmax_with_infinities() -> None:
    equal(run("softmax", torch.tensor([INF, -INF, INF, 0.0]), dim=0), [NAN] * 4)
    equal(run("softmax", torch.tensor([-INF, 2.0, -INF]), dim=0), [0.0, 1.0, 0.0])
    equal(run("softmax", torch.tensor([-INF, -INF]), dim=0), [NAN, NAN])


def test_logsumexp_with_infinities_and_large_numbers() -> None:
    equal(run("logsumexp", torch.tensor([-INF, -INF]), dim=0), -INF)
    equal(run("logsumexp", torch.tensor([-INF, 2.0]), dim=0), 2.0)
    large = run("logsumexp", torch.tensor([1e4, 1e4]), dim=0)
    assert large.item() == pytest.approx(1e4 + math.log(2), rel=2**-23)


@pytest.mark.parametrize("place", [0, 128, 256])
@pytest.mark.parametrize("name", ["amax", "amin"])
def test_an_extreme_of_a_row_with_nan_is_nan(name: str, place: int) -> None:
    row = torch.arange(257.0)
    row[place] = NAN
    assert run(name, row, dim=0).isnan()


@pytest.mark.parametrize("name,arguments", [("relu", {}), ("hardtanh", {}), ("relu6", {})])
def test_nan_passes_bounds(name: str, arguments: dict[str, AttributeValue]) -> None:
    equal(run(name, torch.tensor([NAN, 7.0]), **arguments)[:1], [NAN])


def test_nan_passes_clamp() -> None:
    record = FUNCTIONS["clamp"]
    assert isinstance(record, Record)
    x = placeholder(fixed((3,), DType.FLOAT32))
    node = call(record, (x, 0, 1))
    plain = decompose(Graph("g", (x,), (), (Output("y", node),)))
    (result,) = evaluate(plain.roots, {x: torch.tensor([NAN, 2.0, -1.0])})
    equal(result, [NAN, 1.0, 0.0])


def test_the_mean_of_many_float16_numbers() -> None:
    assert run("mean", torch.ones(70_000, dtype=torch.float16)).item() == 1.0


def test_the_norm_of_large_float16_numbers_is_taken_in_float32() -> None:
    x = torch.full((4,), 1000.0, dtype=torch.float16)
    assert run("norm", x).item() == 2000.0


def test_group_norm_of_a_small_spread_around_a_large_mean() -> None:
    x = 1e4 + 0.01 * torch.randn(1, 4, 8, 8, generator=torch.manual_seed(0))
    deviation = run("group_norm", x, num_groups=2).std()
    assert 0.94 < deviation < 0.97


def test_group_norm_of_single_elements_is_zero() -> None:
    x = torch.randn(2, 4, 1, 1, generator=torch.manual_seed(0))
    equal(run("group_norm", x, num_groups=4).flatten(), [0.0] * 8)


def test_average_pooling_in_ceil_mode_divides_by_what_it_sees() -> None:
    x = torch.arange(1.0, 6.0).reshape(1, 1, 5)
    pooled = run("avg_pool1d", x, kernel_size=2, stride=2, ceil_mode=True)
    equal(pooled.flatten(), [1.5, 3.5, 5.0])


def test_max_pooling_pads_with_nothing_and_keeps_nan() -> None:
    x = torch.full((1, 1, 2, 2), -5.0)
    assert (run("max_pool2d", x, kernel_size=2, padding=1) == -5.0).all()
    x[0, 0, 0, 0] = NAN
    assert run("max_pool2d", x, kernel_size=2).isnan().all()


def test_output_padding_below_the_dilation() -> None:
    x, weight = torch.ones(1, 1, 4, 4), torch.ones(1, 1, 3, 3)
    wide = run("conv_transpose2d", x, weight, dilation=3, output_padding=2)
    assert wide.shape == (1, 1, 12, 12)


def test_linear_over_three_dims() -> None:
    x, weight, bias = torch.ones(2, 5, 8), torch.ones(3, 8), torch.ones(3)
    assert (run("linear", x, weight, bias) == 9.0).all()


def test_products_with_zero_and_differences_keep_nan() -> None:
    x = torch.tensor([INF, NAN])
    assert run("mul", x, torch.zeros(2)).isnan().all()
    assert run("sub", x, x).isnan().all()
