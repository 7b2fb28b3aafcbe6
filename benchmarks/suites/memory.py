"""Chains that move bytes: beside each a copy of its input, which is the limit."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.case import Case
from benchmarks.suites.programs import maker

ELEMENTS = 1 << 27
WIDTHS = (4096, 16384, 65536, 262144)
# Images, channels, height and width, groups.
IMAGES = ((64, 64, 128, 128, 32), (4096, 512, 8, 8, 8))
POINTWISE_ELEMENTS = (1 << 20, 1 << 26, 1 << 30)
POINTWISE_WIDTH = 4096


class Chain(nn.Module):
    """One normalisation or none, with what comes before and after it."""

    def __init__(self, norm: nn.Module | None, chain: Callable[..., Tensor]) -> None:
        super().__init__()
        if norm is not None:
            self.norm = norm
        self.chain = chain

    def forward(self, x: Tensor) -> Tensor:
        """The chain, which takes the norm first where there is one."""
        return self.chain(self.norm, x) if hasattr(self, "norm") else self.chain(x)


@dataclass(frozen=True)
class Row:
    """A chain along rows of `width`: in the language, and in PyTorch."""

    program: str
    norm: Callable[[int], nn.Module] | None
    chain: Callable[..., Tensor]


ROWS = {
    "softmax": Row(
        "    return softmax(x * 0.5, dim=1) |> sqrt\n",
        None,
        lambda x: torch.sqrt(F.softmax(x * 0.5, dim=1)),
    ),
    "log_softmax": Row(
        "    return log_softmax(relu(x), dim=1) * 0.5\n",
        None,
        lambda x: F.log_softmax(F.relu(x), dim=1) * 0.5,
    ),
    "layer_norm": Row(
        "    norm = LayerNorm(width)\n    return relu(x) |> norm |> silu\n",
        nn.LayerNorm,
        lambda norm, x: F.silu(norm(F.relu(x))),
    ),
    "rms_norm": Row(
        "    norm = RMSNorm(width, eps=1e-6)\n    return x * 2 |> norm |> silu\n",
        functools.partial(nn.RMSNorm, eps=1e-6),
        lambda norm, x: F.silu(norm(x * 2)),
    ),
}

GROUP_NORM = """\
model Groups(groups, channels):
    input x: [images, channels, height, width]
    norm = GroupNorm(groups, channels)
    return relu(x) |> norm |> silu
"""

POINTWISE = {
    2: ("relu(x) * 2", lambda x: F.relu(x) * 2),
    5: (
        "silu(sigmoid(x * 2 + 1) * x)",
        lambda x: F.silu(torch.sigmoid(x * 2 + 1) * x),
    ),
    10: (
        "x * 2 + 1 |> sigmoid |> mul(x) |> tanh |> sub(0.5) |> relu |> square |> add(x) |> silu",
        lambda x: F.silu((torch.sigmoid(x * 2 + 1) * x).tanh().sub(0.5).relu().square() + x),
    ),
}

COPY: dict[str, Callable[[nn.Module, Tensor], object]] = {"clone": lambda plain, x: x.clone()}
PRECISIONS = ("float32", "bfloat16", "float16")


def cases() -> list[Case]:
    """Row chains by width, group norms, and elementwise chains by length and size."""
    return [*_rows(), *_images(), *_pointwise()]


def _rows() -> list[Case]:
    return [
        _case(
            f"{name} {width}",
            functools.partial(_chain, row, width),
            maker(f"model Row(width):\n    input x: [rows, width]\n{row.program}", width=width),
            (ELEMENTS // width, width),
        )
        for name, row in ROWS.items()
        for width in WIDTHS
    ]


def _chain(row: Row, width: int) -> nn.Module:
    return Chain(None if row.norm is None else row.norm(width), row.chain)


def _images() -> list[Case]:
    return [
        _case(
            f"group_norm {channels}x{height}x{width}",
            functools.partial(_group_norm, groups, channels),
            maker(GROUP_NORM, groups=groups, channels=channels),
            (images, channels, height, width),
        )
        for images, channels, height, width, groups in IMAGES
    ]


def _group_norm(groups: int, channels: int) -> nn.Module:
    return Chain(nn.GroupNorm(groups, channels), lambda norm, x: F.silu(norm(F.relu(x))))


def _pointwise() -> list[Case]:
    return [
        _case(
            f"pointwise {length} 2^{elements.bit_length() - 1}",
            functools.partial(Chain, None, chain),
            maker(f"model Pointwise():\n    input x: [rows, columns]\n    return {program}\n"),
            (elements // POINTWISE_WIDTH, POINTWISE_WIDTH),
        )
        for length, (program, chain) in POINTWISE.items()
        for elements in POINTWISE_ELEMENTS
    ]


def _case(
    name: str,
    plain: Callable[[], nn.Module],
    generated: Callable[[], nn.Module],
    shape: tuple[int, ...],
) -> Case:
    return Case("memory", name, plain, generated, shape, beside=COPY, precisions=PRECISIONS)
