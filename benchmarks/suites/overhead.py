"""The host's time from Python to the launched kernels, on small tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import fusegen
from benchmarks.case import Case
from benchmarks.chains import EXAMPLES
from benchmarks.plain import GemmGroupNormSwishMultiplySwish
from benchmarks.suites.programs import maker

ROWS, FEATURES = 32, 64

POINTWISE = """\
model Pointwise(features):
    input x: [rows, features]
    weight = Parameter([features])
    return relu(x * 1.702 + 0.5) |> mul(weight) |> tanh
"""

ROW_NORM = """\
model RowNorm(features):
    input x: [rows, features]
    norm = LayerNorm(features)
    return gelu(x + norm(x))
"""


class Pointwise(nn.Module):
    """An elementwise chain with a weight."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features))

    def forward(self, x: Tensor) -> Tensor:
        """tanh(relu(a x + b) w)"""
        return torch.tanh(F.relu(x * 1.702 + 0.5) * self.weight)


class RowNorm(nn.Module):
    """A row chain with a residual."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x: Tensor) -> Tensor:
        """gelu(x + norm(x))"""
        return F.gelu(x + self.norm(x))


def cases() -> list[Case]:
    """Chain 88, an elementwise chain and a row chain."""
    sizes = {"in_features": FEATURES, "out_features": FEATURES, "num_groups": 4}
    plain = functools.partial(GemmGroupNormSwishMultiplySwish, *sizes.values())
    return [
        _case("l2_88", plain, lambda: fusegen.load(EXAMPLES / "l2_88.fuse")(**sizes)),
        _case("pointwise", lambda: Pointwise(FEATURES), maker(POINTWISE, features=FEATURES)),
        _case("row norm", lambda: RowNorm(FEATURES), maker(ROW_NORM, features=FEATURES)),
    ]


def _case(name: str, plain: Callable[[], nn.Module], generated: Callable[[], nn.Module]) -> Case:
    shape = (ROWS, FEATURES)
    return Case("overhead", name, plain, generated, shape, on_host=True)
