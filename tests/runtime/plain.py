"""A chain, and the same written by hand, for tests of how PyTorch treats generated modules."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from fusegen.runtime.request import Target
from tests.modules import load

CHAIN = """\
# Linear, group norm, swish, a learned weight.
model Chain(width=16, num_groups=4, columns=24):
    input x: [batch, width]
    linear = Linear(width, columns)
    norm = GroupNorm(num_groups, columns)
    weight = Parameter([columns])
    return x |> linear |> norm |> swish |> mul(weight)

fn swish(t) = t * sigmoid(t)
"""


class PlainChain(nn.Module):
    """The same, written by hand; bare parameters come before layers in a state dict."""

    def __init__(self, width: int = 16, num_groups: int = 4) -> None:
        super().__init__()
        self.linear = nn.Linear(width, 24)
        self.norm = nn.GroupNorm(num_groups, 24)
        self.weight = nn.Parameter(torch.randn(24))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.linear(x))
        return y * torch.sigmoid(y) * self.weight


def pair(target: Target, seed: int = 0) -> tuple[Any, PlainChain]:
    """A generated chain and the plain one, with the same parameters."""
    torch.manual_seed(seed)
    ours = load(CHAIN, target)()
    plain = PlainChain()
    plain.load_state_dict(ours.state_dict(), strict=True)
    return ours, plain


def inputs(seed: int = 1, rows: int = 5) -> Tensor:
    return torch.randn(rows, 16, generator=torch.Generator().manual_seed(seed))


def closeness(actual: Tensor, expected: Tensor) -> float:
    """The greatest difference, in units of the greatest expected element's last place."""
    assert actual.shape == expected.shape and actual.dtype is expected.dtype
    scale = expected.detach().abs().max().item() * torch.finfo(expected.dtype).eps
    return (actual - expected).detach().abs().max().item() / max(scale, 1e-30)
