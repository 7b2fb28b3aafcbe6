"""What belongs to a product that is stored in 16 bits belongs to the rounded numbers.

All numbers are integers that make products around the middle between two neighbours of bfloat16,
which are 64 apart there: exact in float32, and far from what is stored.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node
from tests.emulated import Kernels, apply, graph, link, planned, value
from tests.kernels.families import linear, mul

BFLOAT16 = DType.BFLOAT16
UNIT = 2.0**-9  # the unit roundoff of bfloat16
ROWS, INNER, COLUMNS, GROUPS = 3, 16, 384, 2


def product(dtype: DType, columns: int = COLUMNS) -> tuple[list[Node], Node]:
    x = value("x", "rows", INNER, dtype=dtype)
    weight = value("weight", columns, INNER, dtype=dtype)
    return [x, weight], linear(x, weight)


def normed() -> Graph:
    """Groups too wide for a tile, and another reduction."""
    given, y = product(BFLOAT16)
    y = mul(y, 129 / 128)
    return graph(given, apply("group_norm", y, num_groups=GROUPS), apply("logsumexp", y, dim=1))


def centred() -> Graph:
    """The product stores what it makes of its elements, and the mean's kernel makes it again."""
    given, y = product(BFLOAT16)
    y = mul(y, 129 / 128)
    mean = apply("mean", y, dim=1, keepdim=True)
    return graph(given, apply("sub", y, mean), apply("logsumexp", y, dim=0))


@functools.cache
def kernels() -> list[Kernels]:
    return link([planned(normed()), planned(centred())])


def drawn(dtype: torch.dtype, columns: int = COLUMNS) -> list[Tensor]:
    """Products of 64 * 141 + 32 and up to 20 more or less."""
    generator = torch.Generator().manual_seed(5)
    x, weight = torch.zeros(ROWS, INNER), torch.zeros(columns, INNER)
    x[:, 0], weight[:, 0] = 64, 141
    x[:, 1], weight[:, 1] = 32, 1
    x[:, 2] = torch.tensor([1.0, -1.0, 1.0])
    weight[:, 2] = torch.randint(-20, 21, (columns,), generator=generator)
    return [x.to(dtype), weight.to(dtype)]


def test_statistics_are_of_what_is_normalised() -> None:
    """Mean 0 and variance 1, but for the results' rounding; float32's is below 2^-12 of the
    deviations."""
    y, _ = kernels()[0](*drawn(torch.bfloat16))
    groups = y.double().reshape(ROWS, GROUPS, -1)
    allowed = UNIT * groups.abs().max().item() + 2.0**-12
    assert (groups.mean(-1).abs() <= allowed).all()
    assert ((groups.square().mean(-1).sqrt() - 1).abs() <= allowed).all()


def test_what_is_computed_again_is_what_is_stored() -> None:
    """The deviations from a mean sum to 0, but for their own rounding and float32's of the mean."""
    d, _ = kernels()[1](*drawn(torch.bfloat16))
    assert d.double().abs().max() > 1
    allowed = UNIT * d.double().abs().max().item() + 2.0**-22 * 64 * 150
    assert (d.double().mean(1).abs() <= allowed).all()
