"""What stands in for PyTorch's operations is them, but where they are inexact or vary."""

from __future__ import annotations

from math import inf, nan

import pytest
import torch
from torch.nn import functional

from fusegen.ir.dtypes import DType
from fusegen.testing.stand_ins import stand_in
from tests.emulated import apply, value

ROWS = [[2.0, 3.0, 4.0], [0.0, 3.0, 4.0], [0.0, 0.0, 4.0], [0.0, inf, 4.0], [inf, 3.0, 4.0]]


@pytest.mark.parametrize("rows", [ROWS, *([row] for row in ROWS)])
def test_the_product_of_a_row_has_the_gradient_that_it_has_alone(rows: list[list[float]]) -> None:
    x = torch.tensor(rows, dtype=torch.float64)
    node = apply("prod", value("x", *x.shape, dtype=DType.FLOAT64), dim=-1, keepdim=False)
    leaf = x.clone().requires_grad_()
    made = stand_in(node, (leaf,), {})
    assert made is not None
    (gradient,) = torch.autograd.grad(made.sum(), leaf)
    for row, value_of, slope in zip(x, made, gradient, strict=True):
        alone = row.clone().requires_grad_()
        expected = torch.prod(alone, dim=-1)
        torch.testing.assert_close(value_of, expected, equal_nan=True)
        torch.testing.assert_close(
            slope, torch.autograd.grad(expected, alone)[0], equal_nan=True, rtol=0.0, atol=0.0
        )


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("layer_norm", {"normalized_shape": (6,), "eps": 0.0}),
        ("rms_norm", {"normalized_shape": (6,), "eps": 0.0}),
        ("group_norm", {"num_groups": 2, "eps": 0.0}),
        ("batch_norm", {"training": True, "eps": 0.0}),
        ("instance_norm", {"eps": 0.0}),
    ],
)
@pytest.mark.parametrize("exponents", [(480, -130), (-480, 130)])
def test_the_gradient_of_a_norm_scales(
    name: str, attributes: dict[str, object], exponents: tuple[int, int]
) -> None:
    """A norm of 2^n x has the gradient at x, divided by 2^n: to the bit, as nothing that matters
    may leave float64's range on the way."""
    shape = (4, 3, 6) if name == "instance_norm" else (4, 6)
    node = apply(name, value("x", *shape, dtype=DType.FLOAT64), **attributes)
    generator = torch.Generator().manual_seed(3)
    x, upstream = (torch.randn(shape, dtype=torch.float64, generator=generator) for _ in range(2))
    up, down = (2.0**exponent for exponent in exponents)

    def gradient(x: torch.Tensor, upstream: torch.Tensor) -> torch.Tensor:
        leaf = x.clone().requires_grad_()
        made = stand_in(node, (leaf,), {})
        assert made is not None
        return torch.autograd.grad(made, leaf, upstream)[0]

    assert torch.equal(gradient(x * up, upstream * down), gradient(x, upstream) * down / up)


@pytest.mark.parametrize("p", [1.5, 3.0])
@pytest.mark.parametrize("upstream", [1.0, 0.0, inf])
@pytest.mark.parametrize(
    ("dim", "keepdim"), [(None, False), (0, False), (-1, True), ((0, 1), True)]
)
def test_a_norm_of_powers_has_pytorchs_gradient(
    p: float, upstream: float, dim: int | tuple[int, ...] | None, keepdim: bool
) -> None:
    node = apply("norm", value("x", 6, 3, dtype=DType.FLOAT64), p=p, dim=dim, keepdim=keepdim)
    x = torch.tensor([*ROWS, [nan, 0.0, -2.0], [0.0, 0.0, 0.0]], dtype=torch.float64)[1:]
    found, expected = x.clone().requires_grad_(), x.clone().requires_grad_()
    made = stand_in(node, (found,), {})
    assert made is not None
    theirs = torch.linalg.vector_norm(expected, p, dim, keepdim)
    torch.testing.assert_close(made, theirs, equal_nan=True)
    ours, wanted = (
        torch.autograd.grad(norm, leaf, torch.full_like(norm, upstream))[0]
        for norm, leaf in ((made, found), (theirs, expected))
    )
    torch.testing.assert_close(ours, wanted, equal_nan=True, rtol=1e-14, atol=0.0)


def test_a_norm_of_powers_beyond_the_range() -> None:
    """What is divided by an overflowing norm is 0, which PyTorch multiplies by an infinity."""
    node = apply("norm", value("x", 2, dtype=DType.FLOAT64), p=3.0)
    x = torch.tensor([1e190, 1.0], dtype=torch.float64, requires_grad=True)
    made = stand_in(node, (x,), {})
    assert made is not None and made.item() == inf
    assert torch.autograd.grad(made, x)[0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", ["batch_norm", "instance_norm"])
def test_a_norm_of_channels_is_pytorchs(name: str) -> None:
    x, weight, bias = (value(name, *shape) for name, *shape in (("x", 4, 3, 5), ("w", 3), ("b", 3)))
    operands = (x, None, None, weight, bias)
    node = apply(name, *operands, **({"training": True} if name == "batch_norm" else {}))
    generator = torch.Generator().manual_seed(4)
    given = [
        torch.randn(shape, dtype=torch.float64, generator=generator) for shape in ((4, 3, 5), 3, 3)
    ]
    made = stand_in(node, given, {})
    functions = {"batch_norm": functional.batch_norm, "instance_norm": functional.instance_norm}
    mode = {"training": True} if name == "batch_norm" else {}
    expected = functions[name](given[0], None, None, given[1], given[2], **mode)
    torch.testing.assert_close(made, expected)
