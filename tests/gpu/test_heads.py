"""Attention whose heads lie within lines, of operands and of the result: products of matrices with
two dims of batches."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fusegen.runtime.request import Target
from tests.modules import load

SOURCE = """\
model Attention(heads, groups, width):
    input q: [batch, time, heads * width]
    input k: [batch, keys, groups * width]
    input v: [batch, keys, groups * width]
    q_heads = reshape(q, (batch, time, groups, heads // groups, width)) |> permute((0, 2, 3, 1, 4))
    k_heads = reshape(k, (batch, keys, groups, 1, width)) |> permute((0, 2, 3, 4, 1))
    v_heads = reshape(v, (batch, keys, groups, 1, width)) |> permute((0, 2, 3, 1, 4))
    scores = q_heads @ k_heads * width ** -0.5
    y = softmax(scores, dim=-1) @ v_heads
    return y |> permute((0, 3, 1, 2, 4)) |> reshape((batch, time, heads * width))
"""
# Rounding units by which a result may be further off than twice eager's, in the norm.
UNITS = 1.0


def eager(q: Tensor, k: Tensor, v: Tensor, heads: int, groups: int) -> Tensor:
    width = q.shape[2] // heads
    q = q.unflatten(2, (groups, heads // groups, width)).permute(0, 2, 3, 1, 4)
    k, v = (x.unflatten(2, (groups, 1, width)).permute(0, 2, 3, 1, 4) for x in (k, v))
    y = torch.softmax(q @ k.transpose(-2, -1) * width**-0.5, dim=-1) @ v
    return y.permute(0, 3, 1, 2, 4).flatten(2)


def distance(actual: Tensor, exact: Tensor) -> float:
    return float((actual.double() - exact).norm() / exact.norm())


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize(
    ("heads", "groups", "width", "time", "keys"),
    [
        (16, 16, 64, 512, 512),
        (6, 6, 40, 200, 136),
        (8, 2, 128, 130, 264),
        (4, 4, 64, 1, 1000),
        (4, 4, 64, 96, 130),
    ],
)
def test_attention(
    heads: int, groups: int, width: int, time: int, keys: int, dtype: torch.dtype
) -> None:
    """Results and gradients within twice eager's error, and the same bits twice."""
    torch.manual_seed(heads)
    module = load(SOURCE, Target.CUDA)(heads=heads, groups=groups, width=width).to("cuda", dtype)
    shapes = (time, heads * width), (keys, groups * width), (keys, groups * width)
    given = [torch.randn(3, *shape, device="cuda").to(dtype) for shape in shapes]

    def found(tensors: list[Tensor], *, ours: bool) -> list[Tensor]:
        leaves = [t.detach().requires_grad_() for t in tensors]
        result = module(*leaves) if ours else eager(*leaves, heads, groups)
        upstream = torch.linspace(-1, 1, result.numel(), device="cuda").reshape(result.shape)
        gradients = torch.autograd.grad(result, leaves, upstream.to(result.dtype))
        return [result.detach(), *gradients]

    exact = found([x.double() for x in given], ours=False)
    theirs = found(given, ours=False)
    first, second = (found(given, ours=True) for _ in range(2))
    for own, again, their, wanted in zip(first, second, theirs, exact, strict=True):
        assert torch.equal(own, again)
        allowed = 2 * distance(their, wanted) + UNITS * torch.finfo(dtype).eps
        assert distance(own, wanted) <= allowed
