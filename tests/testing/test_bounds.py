"""What the derived bounds accept and reject, for given numbers."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph
from fusegen.testing.bounds import SECOND_LOOK, Bound, bound_of, bounds
from fusegen.testing.interpreter import exact
from fusegen.testing.rounding import TF32_UNIT, Precision
from tests.emulated import apply, graph, value

SIZES = {"n": 5}


def bound(of: Graph, x: Tensor, eager: Tensor, precision: Precision | None = None) -> Bound:
    (found,) = bounds(of, [x], [eager], SIZES, precision or Precision())
    return found


def layer_norm() -> Graph:
    x = value("x", "n", 64)
    return graph([x], apply("layer_norm", x, normalized_shape=(64,)))


def test_a_variance_in_one_pass_is_rejected() -> None:
    torch.manual_seed(0)
    x = 1e4 + torch.randn(5, 64)
    right = F.layer_norm(x, (64,))
    variance = (x * x).mean(1, keepdim=True) - x.mean(1, keepdim=True) ** 2
    wrong = (x - x.mean(1, keepdim=True)) * (variance.clamp(min=0) + 1e-5).rsqrt()
    limit = bound(layer_norm(), x, right)
    assert not limit.violations(right).any()
    assert limit.violations(wrong).sum() > 32


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_the_approximate_gelu_is_rejected(dtype: torch.dtype) -> None:
    x = torch.linspace(-3, 3, 320).reshape(5, 64).to(dtype)
    node = value("x", "n", 64, dtype=DType(str(dtype).removeprefix("torch.")))
    exact = F.gelu(x.double()).to(dtype)
    limit = bound(graph([node], apply("gelu", node)), x, exact)
    assert not limit.violations(exact).any()
    assert limit.violations(F.gelu(x, approximate="tanh")).any()


def test_products_of_another_precision_are_rejected_unless_allowed() -> None:
    torch.manual_seed(0)
    x = torch.randn(5, 256)
    node = value("x", "n", 256)
    product = apply("matmul", node, apply("transpose", node, dim0=0, dim1=1))
    right = x @ x.T
    low = x.bfloat16().float() @ x.bfloat16().float().T
    strict = bound(graph([node], product), x, right)
    loose = bound(graph([node], product), x, right, Precision(product=2.0**-8))
    tf32 = bound(graph([node], product), x, right, Precision(product=TF32_UNIT))
    assert not strict.violations(right).any()
    assert strict.violations(low).any() and not loose.violations(low).any()
    assert strict.allowed.max() < tf32.allowed.max() < loose.allowed.max()


def test_special_values_must_be_where_they_belong() -> None:
    x = torch.tensor([[math.nan, 1.0, math.inf, -math.inf, 0.0]]).expand(5, 5)
    node = value("x", "n", 5)
    limit = bound(graph([node], apply("relu", node)), x, F.relu(x))
    assert not limit.violations(F.relu(x)).any()
    without_nan = torch.where(x > 0, x, 0.0)
    assert limit.violations(without_nan)[0].tolist() == [True, False, False, False, False]
    assert limit.violations(torch.full_like(x, math.inf))[0].tolist() == [
        *(True, True, False, True, True)
    ]


def test_a_sum_that_overflows_on_the_way_may_become_anything() -> None:
    x = torch.tensor([[3e38, 3e38, -3e38, -3e38]]).expand(5, 4)
    node = value("x", "n", 4)
    limit = bound(graph([node], apply("sum", node, dim=1)), x, torch.zeros(5))
    for result in (0.0, math.inf, math.nan):
        assert not limit.violations(torch.full((5,), result)).any()
    small = bound(graph([node], apply("sum", node, dim=1)), x / 4, torch.zeros(5))
    assert small.violations(torch.full((5,), math.nan)).all()


def test_what_the_zeros_of_a_margin_are_multiplied_with_may_be_left_out() -> None:
    """PyTorch's convolutions do that or not, by the algorithm; a NaN of an operand's own elements
    is one in any."""
    x, weight = value("x", "n", 1, 3), value("w", 1, 1, 3)
    values = torch.ones(5, 1, 3)
    values[1, 0, 1] = math.nan
    weights = torch.tensor([[[1.0, 2.0, math.inf]]])
    operations = graph([x, weight], apply("conv1d", x, weight, padding=1))
    eager = F.conv1d(values.double(), weights.double(), padding=1).float()
    (limit,) = bounds(operations, [values, weights], [eager], SIZES, Precision(), SECOND_LOOK)
    left_out = torch.full((5, 1, 3), math.inf)
    left_out[:, :, 2] = 3.0
    left_out[1] = math.nan
    assert not limit.violations(eager).any()
    assert not limit.violations(left_out).any()
    without_nan = limit.violations(torch.full_like(left_out, 3.0))
    assert without_nan[:, 0].tolist() == [[False] * 3, [True] * 3, *[[False] * 3] * 3]


def test_a_nan_that_infinities_make_is_one_whatever_becomes_of_margins() -> None:
    x, weight, bias = value("x", "n", 1, 3), value("w", 1, 1, 3), value("b", 1)
    values = torch.ones(5, 1, 3)
    values[0, 0, 0], values[1, 0, 0] = math.inf, -math.inf
    values[2] = torch.tensor([math.inf, -math.inf, 1.0])
    weights, biases = torch.tensor([[[0.0, 2.0, 1.0]]]), torch.tensor([math.inf])
    operations = graph([x, weight, bias], apply("conv1d", x, weight, bias))
    eager = F.conv1d(values, weights, biases)
    assert eager.flatten().isnan().tolist() == [True, True, True, False, False]
    given = [values, weights, biases]
    (limit,) = bounds(operations, given, [eager], SIZES, Precision(), SECOND_LOOK)
    assert not limit.violations(eager).any()
    assert limit.violations(torch.zeros_like(eager))[:3].all()


def test_what_decided_samples_err_by_is_theirs() -> None:
    """A gradient is exactly 0 on one side of a kink, and has errors on the other."""
    zeros = torch.zeros(5, dtype=torch.float64)
    further = ([0.0, 2.0, 0.0, 0.0, -1.0], [0.0, 3.0, 2.0, 0.0, 2.0], [0.0, 2.5, 2.0, 2.0, 2.0])
    decided = tuple(torch.tensor(each).double() for each in further)
    limit = Bound("x", zeros, zeros + 1e-30, zeros.float(), (), decided)
    assert not limit.violations(torch.tensor([0.0, 2.2, 2.0, 2.0, -1.0])).any()
    assert not limit.violations(torch.tensor([0.0, 3.2, 0.0, 0.0, 2.0])).any()
    for wrong in ([1.0, 3.3, 2.1, 1.0, 0.5], [-1.0, 1.7, 1.9, 2.1, -1.1], [math.inf] * 5):
        assert limit.violations(torch.tensor(wrong)).all()


def test_integers_are_exact() -> None:
    x = torch.tensor([[1.0, 3.0, 3.0]]).expand(5, 3)
    node = value("x", "n", 3)
    right = x.argmax(1)
    limit = bound(graph([node], apply("argmax", node, dim=1)), x, right)
    assert not limit.violations(right).any()
    assert limit.violations(right - 1).all()


def test_any_of_nearly_equal_elements_may_be_the_extreme() -> None:
    x = value("x", "n", 64)
    near = torch.linspace(1e4, 1e4 + 3e-2, 64).float().expand(5, 64)
    far = torch.where(torch.arange(64) == 40, near - 1, near)
    result = graph([x], apply("argmin", apply("exp", apply("mul", x, 1e-4)), dim=1))
    every = torch.arange(64)[:5] * 12
    assert not bound(result, near, torch.zeros(5, dtype=torch.int64)).violations(every).any()
    assert bound(result, near, torch.zeros(5, dtype=torch.int64)).violations(every + 64).all()
    wrong = bound(result, far, torch.full((5,), 40)).violations(every)
    assert wrong.tolist() == [True] * 5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_at_the_end_of_the_range_either_side_is_right(dtype: torch.dtype) -> None:
    """Values some thousandths off, of which every sample happens to stay on the same side."""
    end = torch.finfo(dtype).max
    exact = end * torch.tensor([0.999, -0.999, 1.001, 0.9]).double()
    moved = [exact - 0.0005 * end, exact + 0.0005 * end]
    limit = bound_of("x", exact, moved, exact.to(dtype))
    infinite = math.inf * exact.sign().to(dtype)
    assert limit.violations(infinite).tolist() == [False, False, False, True]
    assert limit.violations(-infinite).all()
    finite = exact.clamp(-0.998 * end, 0.998 * end).to(dtype)
    assert not limit.violations(finite).any()
    assert limit.violations(0.85 * finite.double().to(dtype)).all()
    assert limit.violations(torch.full((4,), math.nan, dtype=dtype)).all()


def test_what_overflows_is_not_zero() -> None:
    exact = torch.tensor([1e6, -1e6]).double()
    limit = bound_of("x", exact, [exact * math.inf] * 3, exact.half())
    assert not limit.violations(exact.half()).any()
    assert limit.violations(torch.tensor([0.0, 3e4]).half()).all()
    assert limit.violations(torch.tensor([-math.inf, 65504]).half()).all()


def test_truth_values_of_what_may_overflow_may_be_either() -> None:
    x = value("x", "n", 4)
    scales = torch.tensor([[1.0], [0.25], [1.0], [0.25], [1.0]])
    tensor = scales * torch.tensor([3e38, 3e38, -3e38, 1.0])
    positive = apply("gt", apply("sum", x, dim=1), 0)
    for node in (
        positive,
        apply("logical_not", positive),
        apply("unsqueeze", positive, dim=1),
        apply("any", apply("unsqueeze", positive, dim=1), dim=1),
    ):
        right = exact(graph([x], node), [tensor], SIZES)[0]
        limit = bound(graph([x], node), tensor, right)
        assert not limit.violations(right).any()
        assert limit.violations(~right).flatten().tolist() == [False, True, False, True, False]
