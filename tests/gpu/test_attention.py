"""Attention, whose scores are never in memory, forward and backward."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fusegen.runtime.request import Target
from tests.modules import load

SOURCE = """\
model Attention(heads, width, columns):
    input q: [batch, heads, rows, width]
    input k: [batch, heads, keys, width]
    input v: [batch, heads, keys, columns]
    input bias: [rows, keys]
    input mask: bool[batch, 1, 1, keys]
    scores = q @ transpose(k, -2, -1) * width ** -0.5 + bias
    return softmax(where(mask, scores, -inf), dim=-1) @ v
"""
# Rounding units by which a result may be further off than twice eager's, in the norm.
UNITS = 1.0
SHAPES = [
    (16, 64, 64, 512, 512),
    (6, 40, 40, 200, 136),
    (4, 128, 128, 130, 264),
    (3, 96, 72, 300, 1024),
    (5, 64, 64, 77, 77),
    (2, 8, 24, 1, 1000),
    (2, 64, 64, 1000, 3),
]


def eager(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, mask: Tensor) -> Tensor:
    scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5 + bias
    return torch.softmax(scores.masked_fill(~mask, -float("inf")), dim=-1) @ v


def distance(actual: Tensor, exact: Tensor) -> float:
    return float((actual.double() - exact).norm() / exact.norm())


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(("heads", "width", "columns", "rows", "keys"), SHAPES)
@pytest.mark.parametrize("by_lines", [False, True])
def test_attention(
    heads: int, width: int, columns: int, rows: int, keys: int, by_lines: bool, dtype: torch.dtype
) -> None:
    """Within twice eager's error, and the same bits twice; heads may lie within lines."""
    generator = torch.Generator("cuda").manual_seed(rows + keys)
    module = load(SOURCE, Target.CUDA)(heads=heads, width=width, columns=columns)
    batch = 3

    def drawn(count: int, size: int) -> Tensor:
        shape = (batch, count, heads, size) if by_lines else (batch, heads, count, size)
        x = torch.randn(shape, device="cuda", generator=generator).to(dtype)
        return x.transpose(1, 2) if by_lines else x

    q, k, v = drawn(rows, width), drawn(keys, width), drawn(keys, columns)
    bias = torch.randn(rows, keys, device="cuda", generator=generator).to(dtype)
    mask = torch.rand(batch, 1, 1, keys, device="cuda", generator=generator) < 0.8
    mask[..., 0] = True
    with torch.no_grad():
        first, second = (module(q, k, v, bias, mask) for _ in range(2))
    exact = eager(*(x.double() for x in (q, k, v, bias)), mask)
    allowed = 2 * distance(eager(q, k, v, bias, mask), exact) + UNITS * torch.finfo(dtype).eps
    assert torch.equal(first, second)
    assert distance(first, exact) <= allowed


TRAINED = """\
model Attention(heads, width, columns):
    input q: [batch, heads, rows, width]
    input k: [batch, heads, keys, width]
    input v: [batch, heads, keys, columns]
    input mask: bool[rows, keys]
    scores = q @ transpose(k, -2, -1) * width ** -0.5
    return softmax(where(mask, scores, -inf), dim=-1) @ v
"""
SHARED = TRAINED.replace("k: [batch, heads,", "k: [batch, 1,").replace(
    "v: [batch, heads,", "v: [batch, 1,"
)


def eager_masked(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
    return torch.softmax(scores.masked_fill(~mask, -float("inf")), dim=-1) @ v


def gradients(call: object, tensors: list[Tensor], mask: Tensor, upstream: Tensor) -> list[Tensor]:
    own = [x.detach().requires_grad_() for x in tensors]
    assert callable(call)
    return list(torch.autograd.grad(call(*own, mask), own, upstream))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(("heads", "width", "columns", "rows", "keys"), SHAPES)
@pytest.mark.parametrize("source", [TRAINED, SHARED], ids=["own keys", "shared keys"])
def test_gradients(
    source: str,
    heads: int,
    width: int,
    columns: int,
    rows: int,
    keys: int,
    dtype: torch.dtype,
) -> None:
    """Within twice eager's error, the same bits twice, for lines that have all heads."""
    generator = torch.Generator("cuda").manual_seed(rows + keys)
    module = load(source, Target.CUDA)(heads=heads, width=width, columns=columns)
    batch, key_heads = 3, 1 if source == SHARED else heads

    def drawn(count: int, own_heads: int, size: int) -> Tensor:
        shape = (batch, count, own_heads, size)
        return torch.randn(shape, device="cuda", generator=generator).to(dtype).transpose(1, 2)

    tensors = [
        drawn(rows, heads, width),
        drawn(keys, key_heads, width),
        drawn(keys, key_heads, columns),
    ]
    mask = torch.rand(rows, keys, device="cuda", generator=generator) < 0.8
    mask[:, 0] = True
    upstream = drawn(rows, heads, columns)
    first, second = (gradients(module, tensors, mask, upstream) for _ in range(2))
    near = gradients(eager_masked, tensors, mask, upstream)
    wide = [x.double() for x in tensors]
    exact = gradients(eager_masked, wide, mask, upstream.double())
    for one, same, eager_one, exact_one in zip(first, second, near, exact, strict=True):
        assert one.dtype is dtype and torch.equal(one, same)
        allowed = 2 * distance(eager_one, exact_one) + UNITS * torch.finfo(dtype).eps
        assert distance(one, exact_one) <= allowed
