"""Convolutions of few channels over planes, transposed ones, those of many channels, alone and one
after the other, and the statistics of a batch behind a linear layer."""

from __future__ import annotations

import functools

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.case import PRECISIONS, Case, Mode
from benchmarks.suites.programs import maker

PLANES = """\
model Planes(channels, features):
    input x: [batch, channels, depth, height, width]
    conv = Conv3d(channels, features, 3)
    scale = Parameter([features, 1, 1, 1])
    return sigmoid(tanh(conv(x)) * scale)
"""

SPREAD_PLANES = """\
model SpreadPlanes(channels, features):
    input x: [batch, channels, depth, height, width]
    conv = ConvTranspose3d(channels, features, 3, stride=2, padding=1)
    scale = Parameter([features, 1, 1, 1])
    return silu(conv(x)) * scale
"""

IMAGES = """\
model Images(channels, features):
    input x: [batch, channels, height, width]
    conv = Conv2d(channels, features, 3)
    bias = Parameter([features, 1, 1])
    return relu(conv(x)) + bias
"""

SPREAD_IMAGES = """\
model SpreadImages(channels, features):
    input x: [batch, channels, height, width]
    conv = ConvTranspose2d(channels, features, 3, stride=2, padding=1, output_padding=1)
    return hardtanh(mish(conv(x)) + 0.5)
"""

RESIDUAL = """\
model Residual(channels):
    input x: [batch, channels, height, width]
    conv1 = Conv2d(channels, channels, 3, padding=1, bias=False)
    norm1 = BatchNorm2d(channels)
    conv2 = Conv2d(channels, channels, 3, padding=1, bias=False)
    norm2 = BatchNorm2d(channels)
    conv3 = Conv2d(channels, channels, 3, padding=1, bias=False)
    norm3 = BatchNorm2d(channels)
    conv4 = Conv2d(channels, channels, 3, padding=1, bias=False)
    norm4 = BatchNorm2d(channels)
    first = x |> conv1 |> norm1 |> relu |> conv2 |> norm2
    half = relu(first + x)
    second = half |> conv3 |> norm3 |> relu |> conv4 |> norm4
    return relu(second + half)
"""

STANDARDISED = """\
model Standardised(features):
    input x: [rows, features]
    fc = Linear(features, features)
    norm = BatchNorm1d(features)
    return x |> fc |> norm |> gelu
"""


class Planes(nn.Module):
    """A convolution over planes, tanh, a scale and a sigmoid."""

    def __init__(self, channels: int, features: int) -> None:
        super().__init__()
        self.conv = nn.Conv3d(channels, features, 3)
        self.scale = nn.Parameter(torch.randn(features, 1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """The chain."""
        return torch.sigmoid(torch.tanh(self.conv(x)) * self.scale)


class SpreadPlanes(nn.Module):
    """A transposed convolution over planes, silu and a scale."""

    def __init__(self, channels: int, features: int) -> None:
        super().__init__()
        self.conv = nn.ConvTranspose3d(channels, features, 3, stride=2, padding=1)
        self.scale = nn.Parameter(torch.randn(features, 1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """The chain."""
        return F.silu(self.conv(x)) * self.scale


class Images(nn.Module):
    """A convolution, relu and a bias behind it."""

    def __init__(self, channels: int, features: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, features, 3)
        self.bias = nn.Parameter(torch.randn(features, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """The chain."""
        return F.relu(self.conv(x)) + self.bias


class SpreadImages(nn.Module):
    """A transposed convolution, mish, a shift and bounds."""

    def __init__(self, channels: int, features: int) -> None:
        super().__init__()
        self.conv = nn.ConvTranspose2d(channels, features, 3, stride=2, padding=1, output_padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """The chain."""
        return F.hardtanh(F.mish(self.conv(x)) + 0.5)


class Residual(nn.Module):
    """Two blocks of a residual network in evaluation. As for a user who wants them quick, images
    have their channels last inside."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        for number in range(1, 5):
            conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
            self.add_module(f"conv{number}", conv)
            self.add_module(f"norm{number}", nn.BatchNorm2d(channels))
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, x: Tensor) -> Tensor:
        """The chain."""
        x = x.contiguous(memory_format=torch.channels_last)
        first = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        half = F.relu(first + x)
        second = self.norm4(self.conv4(F.relu(self.norm3(self.conv3(half)))))
        return F.relu(second + half).contiguous()


class Standardised(nn.Module):
    """A linear layer, a batch norm in training, and gelu."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.fc = nn.Linear(features, features)
        self.norm = nn.BatchNorm1d(features)

    def forward(self, x: Tensor) -> Tensor:
        """The chain."""
        return F.gelu(self.norm(self.fc(x)))


# Convolutions of many channels are products, or have their channels last, in 16 bits only.
HALVES = ("bfloat16", "float16")


def _convolution(
    name: str,
    plain: type[nn.Module],
    text: str,
    channels: tuple[int, int],
    shape: tuple[int, ...],
    precisions: tuple[str, ...] = tuple(PRECISIONS),
) -> Case:
    given, made = channels
    return Case(
        "convolutions",
        name,
        functools.partial(plain, given, made),
        maker(text, channels=given, features=made),
        shape,
        precisions=precisions,
    )


def _residual(channels: int, size: int) -> Case:
    generated = maker(RESIDUAL, channels=channels)
    return Case(
        "convolutions",
        f"residual blocks {channels}x{size}x{size}",
        lambda: Residual(channels).eval(),
        lambda: generated().eval(),
        (64, channels, size, size),
        4 * 2 * 64 * size * size * channels * channels * 9,
        precisions=HALVES,
        modes=(Mode.FORWARD,),
    )


def cases() -> list[Case]:
    """A case for each."""
    rows, features = 16384, 4096
    few, many = (3, 16), (64, 128)
    return [
        _convolution("planes 3 to 16", Planes, PLANES, few, (64, 3, 16, 64, 64)),
        _convolution(
            "transposed planes 3 to 16", SpreadPlanes, SPREAD_PLANES, few, (64, 3, 16, 32, 32)
        ),
        _convolution("images 64 to 128", Images, IMAGES, many, (64, 64, 128, 128), HALVES),
        _convolution(
            "transposed images 64 to 64",
            SpreadImages,
            SPREAD_IMAGES,
            (64, 64),
            (64, 64, 64, 64),
            HALVES,
        ),
        *(_residual(channels, size) for channels, size in ((64, 56), (256, 14))),
        Case(
            "convolutions",
            f"linear batch norm {rows}x{features}",
            functools.partial(Standardised, features),
            maker(STANDARDISED, features=features),
            (rows, features),
            2 * rows * features * features,
        ),
    ]
