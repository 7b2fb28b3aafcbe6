"""Faults of other compilers in normalisations, N22 to N30: each with its whole kind."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Output, StatisticsUpdate
from fusegen.ops.composite.normalizations import batch_statistics
from tests.emulated import Size, apply, graph, run, value
from tests.ops.examples import FLOATS, torch_dtype


def normalised(
    name: str,
    tensor: torch.Tensor,
    *shape: Size,
    dtype: DType = DType.FLOAT32,
    **attributes: object,
) -> torch.Tensor:
    """A norm without scale and shift."""
    x = value("x", *(shape or tensor.shape), dtype=dtype)
    (result,) = run(graph([x], apply(name, x, **attributes)), [tensor], check=True)
    return result


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("group_norm", {"num_groups": 2}),
        ("layer_norm", {"normalized_shape": (4, 8, 8)}),
        ("instance_norm", {}),
        ("batch_norm", {"training": True}),
    ],
)
def test_n22_variance_of_a_small_spread_around_a_large_mean(
    name: str, attributes: dict[str, object]
) -> None:
    generator = torch.Generator().manual_seed(0)
    x = 1e4 + 0.01 * torch.randn(2, 4, 8, 8, generator=generator)
    operands: tuple[object, ...] = (None, None) if name == "batch_norm" else ()
    node = value("x", 2, 4, 8, 8)
    (result,) = run(graph([node], apply(name, node, *operands, **attributes)), [x], check=True)
    # eps = 1e-5 beside a variance of 1e-4 leaves a standard deviation of 1 / sqrt(1.1) = 0.953.
    assert 0.94 < result.std().item() < 0.97


def test_n22_variance_of_split_rows() -> None:
    generator = torch.Generator().manual_seed(0)
    x = 1e4 + torch.randn(2, 1 << 15, generator=generator)
    node = value("x", 2, 1 << 15)
    (result,) = run(graph([node], apply("var", node, dim=1)), [x], check=True)
    torch.testing.assert_close(result, x.double().var(1).float(), rtol=1e-4, atol=0)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("spread", [(2, 4, 1, 1), (2, 4, 3, 7)])
def test_n23_a_set_of_one_element_or_one_value_is_0(dtype: DType, spread: tuple[int, ...]) -> None:
    for constant in (0.1, 3.7, -1234.5):
        x = torch.full(spread, constant, dtype=torch_dtype(dtype))
        result = normalised("group_norm", x, dtype=dtype, num_groups=4)
        assert torch.equal(result, torch.zeros_like(x)), constant


@pytest.mark.parametrize("width", [1, 7, 48, 1000, 5000])
def test_n23_a_row_of_one_value_is_0(width: int) -> None:
    x = torch.full((3, width), 0.3)
    assert torch.equal(
        normalised("layer_norm", x, "n", width, normalized_shape=(width,)), torch.zeros(3, width)
    )


@pytest.mark.parametrize("name", ["group_norm", "layer_norm"])
def test_n23_equal_columns_of_a_product_are_0(name: str) -> None:
    x, w = value("x", 5, 12), value("w", 48, 12)
    attributes = {"num_groups": 3} if name == "group_norm" else {"normalized_shape": (48,)}
    weight = torch.randn(1, 12, generator=torch.Generator().manual_seed(1)).expand(48, 12)
    one = graph([x, w], apply(name, apply("linear", x, w), **attributes))
    (result,) = run(one, [torch.randn(5, 12), weight], check=True)
    assert torch.equal(result, torch.zeros(5, 48))


@pytest.mark.parametrize("space", [(10, 20), (1, 200), (3, 67), (31, 33)])
def test_n25_only_the_elements_count(space: tuple[int, int]) -> None:
    x = 5 + torch.randn(2, 6, *space, generator=torch.Generator().manual_seed(2))
    result = normalised("group_norm", x, "n", 6, "h", "w", num_groups=3)
    groups = result.double().reshape(2, 3, -1)
    assert groups.mean(-1).abs().max() < 1e-6
    assert (groups.std(-1, unbiased=False) - 1).abs().max() < 1e-5


@pytest.mark.parametrize("width", [1536, 1535, 1025, 33, 5])
@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_n26_lanes_without_elements_add_nothing(name: str, width: int) -> None:
    x = 100 + torch.randn(3, width, generator=torch.Generator().manual_seed(width))
    result = normalised(name, x, "n", width, normalized_shape=(width,))
    exact = getattr(F, name)(x.double(), (width,))
    # The deviation from a mean of 100 is known to 100 units.
    assert (result.double() - exact).abs().max() < 100 * torch.finfo(torch.float32).eps


def test_n29_reciprocal_of_a_norm() -> None:
    x = torch.randn(64, 128, generator=torch.Generator().manual_seed(3))
    node = value("x", 64, 128)
    norm = apply("layer_norm", node, normalized_shape=(128,))
    chain = apply("reciprocal", apply("add", apply("abs", norm), 1e-6))
    (result,) = run(graph([node], chain), [x], check=True)
    shifted = F.layer_norm(x.double(), (128,)).abs() + 1e-6
    # An error e of the norm becomes e / y^2 of its reciprocal; the norm is good to 8 units of 1.
    allowed = 8 * torch.finfo(torch.float32).eps * (1 / shifted**2 + 1 / shifted)
    assert ((result.double() - 1 / shifted).abs() <= allowed).all()


def test_n30_running_variance_is_unbiased_and_the_norm_is_not() -> None:
    x = value("x", "n", 3, 5)
    mean, variance = batch_statistics(x)
    norm = apply("batch_norm", x, None, None, training=True)
    one = Graph(
        "m", (x,), (), (Output("y", norm),), updates=(StatisticsUpdate("bn", mean, variance),)
    )
    tensor = torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(4))
    reference = torch.nn.BatchNorm1d(3, momentum=1.0)
    expected = reference(tensor)
    result, batch_mean, batch_variance = run(one, [tensor], check=True)
    torch.testing.assert_close(result, expected.detach())
    torch.testing.assert_close(batch_mean, reference.running_mean)
    torch.testing.assert_close(batch_variance, reference.running_var)


def test_n30_one_value_per_channel_cannot_be_trained_on() -> None:
    from fusegen.ops.record import OperationError
    from fusegen.passes.decompose import decompose

    x = value("x", 1, 3)
    with pytest.raises(OperationError, match="more than one value per channel"):
        decompose(graph([x], apply("batch_norm", x, None, None, training=True)))
