"""Dropout on a GPU: the mask of the reference, PyTorch's seed, and CUDA graphs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fusegen.runtime.request import Target
from tests.modules import load

MODEL = """\
model Dropped:
    input x: [batch, 64]
    linear = Linear(64, 96)
    dropout = Dropout(0.25)
    return x |> linear |> dropout |> relu
"""
P = 0.25


@pytest.fixture
def module() -> nn.Module:
    torch.manual_seed(0)
    made: nn.Module = load(MODEL, Target.CUDA)().cuda()
    return made


def step(module: nn.Module, x: Tensor) -> tuple[Tensor, ...]:
    """A forward and the gradients of its sum."""
    y = module(x)
    gradients: tuple[Any, ...] = torch.autograd.grad(y.sum(), [x, *module.parameters()])
    return (y.detach(), *gradients)


@pytest.mark.gpu
def test_forward_and_backward_share_a_mask_that_a_seed_repeats(module: nn.Module) -> None:
    x = torch.randn(4096, 64, device="cuda", requires_grad=True)
    torch.manual_seed(7)
    first = step(module, x)
    torch.manual_seed(7)
    again = step(module, x)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], step(module, x)[0])

    linear = x.detach().double() @ module.get_parameter("linear.weight").double().T
    linear = linear + module.get_parameter("linear.bias").double()
    positive = linear > 1e-3
    kept = first[0] > 0
    # Six standard deviations of the share of kept elements.
    share = kept[positive].double().mean().item()
    assert abs(share - (1 - P)) < 6 * (P * (1 - P) / positive.sum().item()) ** 0.5
    torch.testing.assert_close(
        first[0][kept].double(), (linear / (1 - P))[kept], rtol=1e-5, atol=1e-5
    )
    slopes = kept.double() / (1 - P)
    torch.testing.assert_close(first[3].double(), slopes.sum(0), rtol=1e-5, atol=1e-3)


@pytest.mark.gpu
def test_a_captured_step_draws_anew_at_each_replay(module: nn.Module) -> None:
    x = torch.randn(512, 64, device="cuda", requires_grad=True)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step(module, x)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step(module, x)
    seen = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        graph.replay()
        torch.cuda.synchronize()
        seen.append([each.clone() for each in captured])
    assert all(torch.equal(a, b) for a, b in zip(seen[0], seen[1], strict=True))
    assert not torch.equal(seen[0][0], seen[2][0])
    graph.replay()
    assert not torch.equal(seen[2][0], captured[0])
    torch.testing.assert_close(captured[3], (captured[0] > 0).sum(0) / (1 - P))
