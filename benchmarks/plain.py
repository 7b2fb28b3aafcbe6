"""The five chains as plain modules: what a user has before fusegen, and the peers' input."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class ConvBiasScaleSigmoidGroupNorm(nn.Module):
    """Chain 21, on (N, 8, H, W)."""

    def __init__(
        self,
        in_channels: int = 8,
        out_channels: int = 32,
        kernel_size: int = 3,
        num_groups: int = 8,
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.bias = nn.Parameter(torch.randn(out_channels, 1, 1))
        self.scale = nn.Parameter(torch.randn(out_channels, 1, 1))
        self.group_norm = nn.GroupNorm(num_groups, out_channels)

    def forward(self, x: Tensor) -> Tensor:
        """Convolution, bias, scale, sigmoid, group norm."""
        y: Tensor = self.group_norm(torch.sigmoid((self.conv(x) + self.bias) * self.scale))
        return y


class MatmulGroupNormLeakyReluSum(nn.Module):
    """Chain 62, on (N, input_size)."""

    def __init__(
        self, input_size: int = 8192, hidden_size: int = 8192, num_groups: int = 512
    ) -> None:
        super().__init__()
        self.fc = nn.Linear(input_size, hidden_size)
        self.gn = nn.GroupNorm(num_groups, hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        """Linear, group norm, leaky ReLU, twice the result."""
        y = F.leaky_relu(self.gn(self.fc(x)), 0.01)
        return y + y


class GemmLogSumExpLeakyReluGelu(nn.Module):
    """Chain 64, on (N, in_features); the result is (N, 1)."""

    def __init__(self, in_features: int = 8192, out_features: int = 8192) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x: Tensor) -> Tensor:
        """Linear, log-sum-exp of each row, leaky ReLU twice, GELU twice."""
        y = torch.logsumexp(self.linear(x), dim=1, keepdim=True)
        return F.gelu(F.gelu(F.leaky_relu(F.leaky_relu(y, 0.01), 0.01)))


class GemmGroupNormSwishMultiplySwish(nn.Module):
    """Chain 88, on (N, in_features)."""

    def __init__(
        self, in_features: int = 8192, out_features: int = 8192, num_groups: int = 256
    ) -> None:
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features)
        self.group_norm = nn.GroupNorm(num_groups, out_features)
        self.multiply_weight = nn.Parameter(torch.randn(out_features))

    def forward(self, x: Tensor) -> Tensor:
        """Linear, group norm, swish, a weight per feature, swish."""
        y = self.group_norm(self.gemm(x))
        y = y * torch.sigmoid(y) * self.multiply_weight
        return y * torch.sigmoid(y)


class GemmBiasHardtanhMishGroupNorm(nn.Module):
    """Chain 94, on (N, in_features)."""

    def __init__(
        self, in_features: int = 8192, out_features: int = 8192, num_groups: int = 256
    ) -> None:
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features)
        self.bias = nn.Parameter(torch.randn(out_features))
        self.groupnorm = nn.GroupNorm(num_groups, out_features)

    def forward(self, x: Tensor) -> Tensor:
        """Linear, bias, hardtanh, mish, group norm."""
        y: Tensor = self.groupnorm(F.mish(F.hardtanh(self.gemm(x) + self.bias)))
        return y
