"""What stands in for PyTorch's activations is them, but where they are inexact or vary."""

from __future__ import annotations

from math import inf, nan

import pytest
import torch

from fusegen.ir.dtypes import DType
from fusegen.ops.pointwise import activations
from fusegen.testing.activation_stand_ins import PASSING_AT_NAN, activation_stand_in
from tests.emulated import apply, value

# The attributes that functions take without a default, or whose default is a special case.
ATTRIBUTES = {"celu": {"alpha": 0.5}, "elu": {"alpha": 1.5}, "softshrink": {"lambd": 0.25}}
NUMBERS = [-inf, -1e300, -7.0, -3.0, -1.0, -0.5, -1e-300, 0.0, 1e-300, 0.5, 1.0, 3.0, 6.0, 9.0, inf]
FUNCTIONS = {
    "relu6": torch.nn.functional.relu6,
    "hardtanh": torch.nn.functional.hardtanh,
    "hardswish": torch.nn.functional.hardswish,
    "hardshrink": torch.nn.functional.hardshrink,
    "softshrink": torch.nn.functional.softshrink,
    "elu": torch.nn.functional.elu,
    "selu": torch.nn.functional.selu,
    "celu": torch.nn.functional.celu,
}


def activation(name: str, x: torch.Tensor, upstream: float) -> list[torch.Tensor]:
    """The stand-in's values and gradients."""
    node = apply(name, value("x", *x.shape, dtype=DType.FLOAT64), **ATTRIBUTES.get(name, {}))
    leaf = x.clone().requires_grad_()
    made = activation_stand_in(node, leaf)
    assert made is not None
    (gradient,) = torch.autograd.grad(made, leaf, torch.full_like(x, upstream))
    return [made.detach(), gradient]


def test_every_one_is_tested() -> None:
    assert {record.name for record in PASSING_AT_NAN} == set(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("upstream", [0.75, inf])
def test_activations_that_pass_at_nan_are_pytorchs_at_numbers(name: str, upstream: float) -> None:
    x = torch.tensor(NUMBERS, dtype=torch.float64)
    leaf = x.clone().requires_grad_()
    expected = FUNCTIONS[name](leaf, **ATTRIBUTES.get(name, {}))
    (slope,) = torch.autograd.grad(expected, leaf, torch.full_like(x, upstream))
    for made, right in zip(activation(name, x, upstream), (expected, slope), strict=True):
        torch.testing.assert_close(made, right.detach(), equal_nan=True, rtol=1e-13, atol=0.0)


def test_softsign_is_pytorchs_where_terms_do_not_cancel() -> None:
    x = torch.tensor([-inf, -3.0, -0.5, 0.0, 0.5, 3.0, inf, nan], dtype=torch.float64)
    leaf = x.clone().requires_grad_()
    expected = torch.nn.functional.softsign(leaf)
    (slope,) = torch.autograd.grad(expected.sum(), leaf)
    made, gradient = activation("softsign", x, 1.0)
    torch.testing.assert_close(made, expected.detach(), equal_nan=True, rtol=1e-13, atol=0.0)
    torch.testing.assert_close(gradient, slope, equal_nan=True, rtol=1e-13, atol=0.0)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("count", [1, 64])
def test_gradients_pass_at_nan_however_many_there_are(name: str, count: int) -> None:
    made, gradient = activation(name, torch.full((count,), nan, dtype=torch.float64), 0.75)
    scale = activations.SELU_SCALE if name == "selu" else 1.0
    assert made.isnan().all()
    assert torch.equal(gradient, torch.full_like(gradient, 0.75 * scale))
