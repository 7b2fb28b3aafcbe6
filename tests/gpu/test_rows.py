"""Rows of every form of kernel, parts of a warp to clusters: norms and softmaxes both ways."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from fusegen.runtime.request import Target
from tests.modules import load

SOURCE = """\
model Rows{columns}(columns={columns}):
    input x: [rows, columns]
    norm = LayerNorm(columns)
    return norm(x), softmax(x, dim=1)
"""
# Parts of a warp, of a block, blocks of usual and other sizes, and clusters.
WIDTHS = [64, 200, 768, 1280, 2560, 5120, 12288, 33000]
# Rounding units by which a result may be further off than twice eager's, in the norm.
UNITS = 1.0


def eager(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    return functional.layer_norm(x, x.shape[1:], weight, bias), functional.softmax(x, dim=1)


def distance(actual: Tensor, exact: Tensor) -> float:
    return float((actual.double() - exact).norm() / exact.norm())


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("columns", WIDTHS)
def test_norms_and_softmaxes_of_rows(columns: int, dtype: torch.dtype) -> None:
    """More rows than are worked on at once, results and gradients within twice eager's error, and
    the same bits twice."""
    torch.manual_seed(columns)
    module = load(SOURCE.format(columns=columns), Target.CUDA)().to("cuda", dtype)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, 1.0, 0.3)
    x = torch.randn(max(3_000_000 // columns, 700) + 1, columns, device="cuda").to(dtype)
    upstream = [torch.randn_like(x) for _ in range(2)]

    def found(x: Tensor, *parameters: Tensor, ours: bool) -> list[Tensor]:
        leaves = [t.detach().requires_grad_() for t in (x, *parameters)]
        if ours:
            leaves[1:] = list(module.parameters())
        results = module(leaves[0]) if ours else eager(*leaves)
        given = [gradient.to(x.dtype) for gradient in upstream]
        return [*results, *torch.autograd.grad(results, leaves, given)]

    parameters = list(module.parameters())
    exact = found(x.double(), *(p.double() for p in parameters), ours=False)
    theirs = found(x, *parameters, ours=False)
    first, second = (found(x, *parameters, ours=True) for _ in range(2))
    for own, again, their, wanted in zip(first, second, theirs, exact, strict=True):
        assert torch.equal(own, again)
        allowed = 2 * distance(their, wanted) + UNITS * torch.finfo(dtype).eps
        assert distance(own, wanted) <= allowed
