"""Faults of other compilers in forward numerics, N02 to N20: each with its whole kind."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from fusegen.ir.dtypes import DType
from tests.emulated import apply, build, graph, run, value
from tests.ops.examples import FLOATS, torch_dtype

NAN, INF = float("nan"), float("inf")


def on_rows(
    name: str, rows: torch.Tensor, dtype: DType = DType.FLOAT32, **attributes: object
) -> torch.Tensor:
    """A function of the rows of a matrix, by one kernel for any number of rows."""
    x = value("x", "n", rows.shape[1], dtype=dtype)
    tensor = rows.to(torch_dtype(dtype))
    (result,) = run(graph([x], apply(name, x, **attributes)), [tensor], check=True)
    return result


def elementwise(
    name: str, values: list[float], dtype: DType = DType.FLOAT32, **attributes: object
) -> torch.Tensor:
    """A function of a vector."""
    return on_rows(name, torch.tensor([values], dtype=torch.float64), dtype, **attributes)[0]


@pytest.mark.parametrize("dtype", FLOATS)
def test_n02_softmax_of_infinities(dtype: DType) -> None:
    rows = torch.tensor([[INF, -INF, INF, 0.0], [-INF, 2.0, -INF, -INF]])
    softmax = on_rows("softmax", rows, dtype, dim=1)
    assert softmax[0].isnan().all()
    assert softmax[1].tolist() == [0.0, 1.0, 0.0, 0.0]
    log_softmax = on_rows("log_softmax", rows, dtype, dim=1)
    assert log_softmax[0].isnan().all()
    assert log_softmax[1].tolist() == [-INF, 0.0, -INF, -INF]
    assert on_rows("logsumexp", rows, dtype, dim=1).tolist() == [INF, 2.0]


@pytest.mark.parametrize("width", [1, 31, 33, 256, 1023, 1025, 3000])
def test_n03_rows_with_idle_threads_and_leading_minus_infinities(width: int) -> None:
    rows = torch.randn(3, width, generator=torch.Generator().manual_seed(width))
    rows[1, : width // 2] = -INF
    rows[2] = -INF
    for name in ("softmax", "log_softmax", "logsumexp"):
        actual = on_rows(name, rows, dim=1)
        expected = getattr(torch, name)(rows, 1)
        torch.testing.assert_close(actual, expected, equal_nan=True, rtol=1e-6, atol=1e-6)
        assert not actual[:2].isnan().any()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("width", [2, 40, 5000])
def test_n04_logsumexp_of_minus_infinities(dtype: DType, width: int) -> None:
    rows = torch.full((2, width), -INF)
    rows[1, -1] = 2.0
    assert on_rows("logsumexp", rows, dtype, dim=1).tolist() == [-INF, 2.0]


def test_n04_split_rows_of_minus_infinities() -> None:
    x = value("x", 2, 1 << 15)
    rows = torch.full((2, 1 << 15), -INF)
    rows[1, 20_000] = 2.0
    (result,) = run(graph([x], apply("logsumexp", x, dim=1)), [rows], check=True)
    assert result.tolist() == [-INF, 2.0]


@pytest.mark.parametrize(("dtype", "large"), [(DType.FLOAT32, 1e4), (DType.FLOAT16, 6e4)])
def test_n05_logsumexp_does_not_overflow(dtype: DType, large: float) -> None:
    rows = torch.tensor([[large, large], [-large, -large]])
    result = on_rows("logsumexp", rows, dtype, dim=1)
    expected = torch.tensor([large + math.log(2), -large + math.log(2)]).to(torch_dtype(dtype))
    assert torch.equal(result, expected)
    assert on_rows("softmax", rows, dtype, dim=1).tolist() == [[0.5, 0.5]] * 2


KEEP_NAN = {
    "relu": {},
    "relu6": {},
    "clamp": {},
    "hardtanh": {},
    "leaky_relu": {},
    "threshold": {"threshold": 0.0, "value": 1.0},
    "hardsigmoid": {},
    "hardswish": {},
    "softshrink": {},
    "hardshrink": {},
    "elu": {},
    "celu": {},
    "selu": {},
    "gelu": {},
    "silu": {},
    "mish": {},
    "softplus": {},
    "softsign": {},
    "abs": {},
    "floor": {},
    "round": {},
}


@pytest.mark.parametrize("dtype", FLOATS)
def test_n06_nan_goes_through(dtype: DType) -> None:
    x = value("x", 3, dtype=dtype)
    operands = {name: (x, 0.0, 1.0) if name == "clamp" else (x,) for name in KEEP_NAN}
    results = [apply(name, *operands[name], **KEEP_NAN[name]) for name in KEEP_NAN]
    results += [apply("minimum", x, 1.0), apply("maximum", 0.0, x)]
    tensor = torch.tensor([NAN, -2.0, 5.0], dtype=torch_dtype(dtype))
    for result in run(graph([x], *results), [tensor], check=True):
        assert result.isnan().tolist() == [True, False, False]


@pytest.mark.parametrize("position", [0, 128, 256])
@pytest.mark.parametrize("dtype", FLOATS)
def test_n07_extremes_keep_nan_wherever_it_stands(position: int, dtype: DType) -> None:
    rows = torch.zeros(2, 257)
    rows[0, position] = NAN
    for name in ("amax", "amin"):
        assert on_rows(name, rows, dtype, dim=1).isnan().tolist() == [True, False]
        assert on_rows(name, rows.t(), dtype, dim=0).isnan().tolist() == [True, False]
    for name in ("argmax", "argmin"):
        assert on_rows(name, rows, dtype, dim=1).tolist() == [position, 0]


@pytest.mark.parametrize("name", ["softplus", "mish", "silu", "gelu", "elu", "logsigmoid"])
def test_n08_large_values_in_half(name: str) -> None:
    result = elementwise(name, [11, 12, 1000], DType.FLOAT16)
    expected = [0.0, 0.0, 0.0] if name == "logsigmoid" else [11.0, 12.0, 1000.0]
    assert torch.allclose(result, torch.tensor(expected).half(), atol=2e-5, rtol=0)


def test_n09_softplus_has_a_threshold() -> None:
    result = elementwise("softplus", [1, 4], beta=1.0, threshold=2.0)
    assert result[1] == 4.0 and abs(result[0].item() - 1.3133) < 5e-5
    exact = torch.tensor([0.1, 0.5, 3.0])
    result = elementwise("softplus", exact.tolist(), beta=5.0, threshold=2.0)
    torch.testing.assert_close(result, F.softplus(exact, 5.0, 2.0))


@pytest.mark.parametrize("dtype", FLOATS)
def test_n11_mish_has_no_overflow(dtype: DType) -> None:
    values = [-100.0, -20.0, 88.0, 1e4, -INF, INF]
    result = elementwise("mish", values, dtype)
    assert not result[:4].isnan().any()
    assert result[2:4].tolist() == torch.tensor(values[2:4]).to(torch_dtype(dtype)).tolist()
    assert result[5] == INF


def test_n12_the_exact_gelu_is_exact() -> None:
    result = elementwise("gelu", [-2.5, -3.0], DType.BFLOAT16)
    assert (result.double() - torch.tensor([-0.0155, -0.0041])).abs().max() < 5e-5
    assert torch.equal(result, F.gelu(torch.tensor([-2.5, -3.0]).double()).bfloat16())
    points = torch.linspace(-6, 6, 241, dtype=torch.float64)
    exact = F.gelu(points)
    difference = (exact - F.gelu(points, approximate="tanh")).abs().max()
    assert difference < 5e-4  # so the tolerance must be far below
    for approximate in ("none", "tanh"):
        result = elementwise("gelu", points.tolist(), approximate=approximate).double()
        expected = F.gelu(points.float().double(), approximate=approximate)
        error = (result - expected).abs() / expected.abs().clamp(min=1)
        assert error.max() < 2 * torch.finfo(torch.float32).eps


@pytest.mark.parametrize("name", ["elu", "celu", "expm1", "relu", "neg", "abs", "sin"])
def test_n17_subnormals_are_not_flushed(name: str) -> None:
    result = elementwise(name, [-9.18e-41, 9.18e-41], DType.BFLOAT16)
    assert (result != 0).tolist() == [name != "relu", True]


def test_n18_products_and_differences_are_not_folded() -> None:
    x = value("x", 4)
    results = [
        apply("mul", x, 0.0),
        apply("sub", x, x),
        apply("div", x, x),
        apply("mul", x, 0),
        apply("add", x, 0),
    ]
    tensor = torch.tensor([INF, NAN, -0.0, 1.0])
    zero, difference, quotient, integer, moved = run(graph([x], *results), [tensor], check=True)
    assert zero.isnan().tolist() == [True, True, False, False] and zero[2].signbit()
    assert difference.isnan().tolist() == [True, True, False, False]
    assert quotient.isnan().tolist() == [True, True, True, False]
    assert torch.equal(integer.isnan(), zero.isnan())
    assert not moved[2].signbit()  # -0 + 0 is 0


def test_n19_numbers_are_not_narrowed() -> None:
    x = value("x", 2, dtype=DType.FLOAT64)
    results = [apply("add", x, 2e50), apply("mul", x, 0.1), apply("add", x, 16777217)]
    tensor = torch.ones(2, dtype=torch.float64)
    made = run(graph([x], *results), [tensor], check=True)
    assert [m[0].item() for m in made] == [2e50, 0.1, 16777218.0]


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16])
@pytest.mark.parametrize("dim", [0, 1])
def test_n20_sums_are_kept_in_float32(dtype: DType, dim: int) -> None:
    shape = (1, 70_000) if dim else (70_000, 1)
    x = value("x", *shape, dtype=dtype)
    ones = torch.ones(shape, dtype=torch_dtype(dtype))
    results = [apply("mean", x, dim=dim), apply("logsumexp", x, dim=dim), apply("norm", x)]
    for kernels in build([graph([x], *results)], check=True):
        mean, logsumexp, norm = kernels(ones, check=True)
        assert mean.item() == 1.0
        assert logsumexp.item() == torch.logsumexp(ones.double(), dim).to(ones.dtype).item()
        assert norm.item() == torch.tensor(70_000.0).sqrt().to(ones.dtype).item()


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16])
def test_n20_products_are_accumulated_in_float32(dtype: DType) -> None:
    x, y = value("x", 1, 4096, dtype=dtype), value("y", 4096, 1, dtype=dtype)
    ones = torch.ones(1, 4096, dtype=torch_dtype(dtype))
    (result,) = run(graph([x, y], apply("matmul", x, y)), [ones, ones.t()], check=True)
    assert result.item() == 4096.0
