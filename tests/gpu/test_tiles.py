"""16-bit products on the GPU on every kind of tiles: right, and the same to the bit."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import Tensor, nn

from fusegen.compiler.loading import blueprint
from fusegen.compiler.specialisation import Specialisation
from fusegen.frontend import Source
from fusegen.plan.kernels.product_forms import TileKind
from fusegen.plan.preferences import UNTUNED, Preferences
from fusegen.plan.tensor_cores import PARTS
from fusegen.runtime.generated_module import generated_module
from fusegen.runtime.request import Target

# Columns that are whole tiles of no width but 64 and 32, groups of 16, and 17 steps of K, the last
# of which is no whole one.
SOURCE = """
model Tiles():
    input x: [batch, 1032]
    fc = Linear(1032, 1216)
    norm = GroupNorm(76, 1216)
    return x |> fc |> gelu |> norm
"""
KINDS = [TileKind(columns, parts) for columns in PARTS for parts in (1, *PARTS[columns])]
ROWS = (1, 9, 128, 131, 700)

pytestmark = pytest.mark.gpu


@cache
def module(preferences: Preferences) -> nn.Module:
    """One with the same parameters whatever the tiles."""
    made = blueprint(
        Specialisation.of(Source("tiles.fuse", SOURCE), None, {}),
        Target.CUDA,
        preferences=preferences,
    )
    torch.manual_seed(3)
    found = getattr(generated_module(made), made.class_name)(dtype=torch.bfloat16)
    assert isinstance(found, nn.Module)
    return found.cuda().eval()


def exact(one: nn.Module, x: Tensor) -> Tensor:
    weights = {name: value.double() for name, value in one.state_dict().items()}
    product = nn.functional.linear(x.double(), weights["fc.weight"], weights["fc.bias"])
    active = nn.functional.gelu(product)
    return nn.functional.group_norm(active, 76, weights["norm.weight"], weights["norm.bias"])


@pytest.mark.parametrize("preferences", [UNTUNED, *(Preferences(only=kind) for kind in KINDS)])
def test_against_float64(preferences: Preferences) -> None:
    """What rounding to bfloat16 costs at the end, and nothing more of note: 2^-9 of an element at
    most, and of all together less."""
    one = module(preferences)
    for rows in ROWS:
        generator = torch.Generator().manual_seed(rows)
        x = torch.randn(rows, 1032, generator=generator).bfloat16().cuda()
        expected = exact(one, x)
        with torch.no_grad():
            first, again = one(x), one(x)
        assert torch.equal(first, again)
        assert float((first.double() - expected).norm() / expected.norm()) < 2**-9
