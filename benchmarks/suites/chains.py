"""The five chains at their full sizes, and beside each the bare product or convolution."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

import fusegen
from benchmarks.case import Case
from benchmarks.chains import CHAINS, Chain


def cases() -> list[Case]:
    """The chains."""
    return [
        Case(
            "chains",
            chain.name,
            chain.plain,
            _generated(chain),
            chain.input_shape,
            _operations(chain),
            {"product": _first_layer},
        )
        for chain in CHAINS
    ]


def _generated(chain: Chain) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        made: nn.Module = fusegen.load(chain.file)()
        return made

    return make


def _first_layer(plain: nn.Module, x: Tensor) -> Tensor:
    """The library's product alone, in PyTorch."""
    result: Tensor = _linear(plain)(x)
    return result


def _linear(plain: nn.Module) -> nn.Module:
    return next(layer for layer in plain.children() if isinstance(layer, (nn.Linear, nn.Conv2d)))


def _operations(chain: Chain) -> int:
    with torch.device("meta"):  # no memory, no random numbers
        layer = _linear(chain.plain())
    weight = layer.weight
    assert isinstance(weight, Tensor)
    positions = chain.input_shape[0]
    if isinstance(layer, nn.Conv2d):
        for size, kernel in zip(chain.input_shape[2:], layer.kernel_size, strict=True):
            positions *= size - kernel + 1
    return 2 * weight.numel() * positions
