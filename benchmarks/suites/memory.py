"""The memory-bound chains of `benchmarks.memory` that work row by row, with their layers'
parameters: beside each a copy of its input, which is the limit."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks import memory
from benchmarks.case import Case
from benchmarks.suites.programs import maker

# Their float64 reference does not come a few rows at a time.
ACROSS_ROWS = frozenset({"outer sum", "full sum"})
COPY: dict[str, Callable[[nn.Module, Tensor], object]] = {"clone": lambda plain, x: x.clone()}


class Functions(nn.Module):
    """A chain without parameters."""

    def __init__(self, chain: str, arguments: Mapping[str, int]) -> None:
        super().__init__()
        self.chain = functools.partial(memory.CHAINS[chain].plain, **arguments)

    def forward(self, x: Tensor) -> Tensor:
        """PyTorch's own operations."""
        result: Tensor = self.chain(x)
        return result


class Normed(nn.Module):
    """A normalisation, with what comes before and after it."""

    def __init__(self, before: Callable[[Tensor], Tensor], norm: nn.Module) -> None:
        super().__init__()
        self.before = before
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        """The chain."""
        return F.silu(self.norm(self.before(x)))


NORMED: dict[str, Callable[..., nn.Module]] = {
    "layer_norm": lambda width: Normed(F.relu, nn.LayerNorm(width)),
    "rms_norm": lambda width: Normed(lambda x: x * 2, nn.RMSNorm(width, eps=1e-6)),
    "group_norm": lambda groups, channels, height: Normed(F.relu, nn.GroupNorm(groups, channels)),
}


def cases() -> list[Case]:
    """Each chain once at each shape, for all precisions."""
    return [
        _case(found)
        for found in memory.cases()
        if found.chain not in ACROSS_ROWS and found.dtype is torch.float32
    ]


def _case(found: memory.Case) -> Case:
    arguments = dict(found.arguments)
    normed = NORMED.get(found.chain)
    plain: Callable[[], nn.Module] = (
        functools.partial(normed, **arguments)
        if normed is not None
        else functools.partial(Functions, found.chain, arguments)
    )
    return Case(
        "memory",
        found.name.rpartition(" ")[0],
        plain,
        maker(memory.CHAINS[found.chain].source, **arguments),
        found.shape,
        beside=COPY,
        precisions=("float32", "bfloat16", "float16"),
    )
