"""What is timed must be right: a wrong result on some tiles ends the tuning, which says on which.
Kernels in the emulator stand in for a GPU's."""

from __future__ import annotations

import pytest
import torch

from fusegen.compiler.loading import blueprint
from fusegen.compiler.specialisation import Specialisation
from fusegen.errors import FusegenError
from fusegen.frontend import Source
from fusegen.ir.dtypes import DType
from fusegen.plan.cost import SizeHints
from fusegen.plan.kernels.product_forms import TileKind
from fusegen.plan.preferences import Preferences
from fusegen.runtime.generated_module import generated_module
from fusegen.runtime.request import Target
from fusegen.runtime.tensors import random_tensor
from fusegen.runtime.tile_timing import check_results
from fusegen.testing.alternatives import what_is_wrong

SOURCE = Source(
    "product.fuse",
    """
model Product(width=1024):
    input x: [batch, time, width]
    gemm = Linear(width, 64)
    return x |> gemm |> gelu |> mean(dim=2)
""",
)
SIZES = SizeHints({"batch": 3}, default=7)


class OneOff(torch.nn.Module):
    """A module one of whose results is 0.05 off."""

    def __init__(self, right: torch.nn.Module) -> None:
        super().__init__()
        self.right = right

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.right(x).clone()
        result[0, 0] += 0.05
        return result


def test_results_on_each_kind_of_tiles_are_judged() -> None:
    chosen = Specialisation.of(SOURCE, None, {})
    graph = chosen.graph(DType.BFLOAT16, training=False)
    modules: dict[TileKind, torch.nn.Module] = {}
    for kind in (TileKind(64), TileKind(64, 2)):
        what = blueprint(chosen, Target.EMULATE, preferences=Preferences(only=kind))
        scope = generated_module(what)
        torch.manual_seed(3)
        modules[kind] = scope.Product(dtype=torch.bfloat16).eval()
    inputs = [random_tensor(node, SIZES, "cpu") for node in graph.inputs]
    with torch.no_grad():
        check_results(modules, scope.reference, graph, inputs, SIZES, what_is_wrong)
        modules[TileKind(64, 2)] = OneOff(modules[TileKind(64, 2)])
        with pytest.raises(FusegenError) as error:
            check_results(modules, scope.reference, graph, inputs, SIZES, what_is_wrong)
    message = str(error.value)
    assert "on tiles of 64 columns and 2 parts of K are wrong, so nothing is remembered" in message
    assert "1 of 21 elements are wrong; at [0, 0]: " in message
    assert "fusegen verify" in str(error.value.hint)
