"""The five chains: their files, their full sizes, small ones for checks, and the plain modules."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import nn

from benchmarks import plain

EXAMPLES = Path(__file__).parent.parent / "examples" / "kernelbench"


@dataclass(frozen=True)
class Chain:
    """One chain: `input_shape` is KernelBench's, `small` are arguments and an input shape that
    run in a second under a checker."""

    name: str
    plain: type[nn.Module]
    input_shape: tuple[int, ...]
    small: dict[str, int]
    small_shape: tuple[int, ...]

    @property
    def file(self) -> Path:
        """Its `.fuse` file."""
        return EXAMPLES / f"{self.name}.fuse"


CHAINS = (
    Chain(
        "l2_21",
        plain.ConvBiasScaleSigmoidGroupNorm,
        (128, 8, 256, 256),
        {"in_channels": 8, "out_channels": 16, "num_groups": 4},
        (3, 8, 21, 18),
    ),
    Chain(
        "l2_62",
        plain.MatmulGroupNormLeakyReluSum,
        (1024, 8192),
        {"input_size": 200, "hidden_size": 192, "num_groups": 12},
        (70, 200),
    ),
    Chain(
        "l2_64",
        plain.GemmLogSumExpLeakyReluGelu,
        (1024, 8192),
        {"in_features": 200, "out_features": 190},
        (70, 200),
    ),
    Chain(
        "l2_88",
        plain.GemmGroupNormSwishMultiplySwish,
        (1024, 8192),
        {"in_features": 200, "out_features": 192, "num_groups": 6},
        (70, 200),
    ),
    Chain(
        "l2_94",
        plain.GemmBiasHardtanhMishGroupNorm,
        (1024, 8192),
        {"in_features": 200, "out_features": 192, "num_groups": 6},
        (70, 200),
    ),
)
