"""A library's operands stand in memory."""

from __future__ import annotations

import torch

from fusegen.ir.graph import topological
from fusegen.ops.record import LibraryCall
from fusegen.passes.pipeline import run as run_passes
from fusegen.plan.kernels.elementwise import ElementwisePlan
from fusegen.plan.kernels.library import LibraryPlan
from tests.emulated import apply, graph, planned, run, value


def test_a_view_is_copied_before_a_library_reads_it() -> None:
    x, weight = value("x", 3, 8), value("weight", 5, 3, 2)
    convolution = apply("conv1d", x, weight)  # PyTorch adds a batch dim
    plan = planned(graph([x, weight], convolution))
    assert [type(step) for step in plan.steps] == [ElementwisePlan, LibraryPlan]
    tensors = torch.randn(3, 8), torch.randn(5, 3, 2)
    (result,) = run(graph([x, weight], convolution), tensors)
    torch.testing.assert_close(result, torch.conv1d(tensors[0], tensors[1]))


def test_a_tensor_that_stands_in_memory_is_not_copied() -> None:
    x, weight = value("x", 2, 3, 8), value("weight", 5, 3, 2)
    plan = planned(graph([x, weight], apply("conv1d", apply("relu", x), weight)))
    assert [type(step) for step in plan.steps] == [ElementwisePlan, LibraryPlan]


def test_one_copy_serves_two_calls() -> None:
    x, weight = value("x", 8, 3, 2), value("weight", 5, 3, 2)
    turned = apply("permute", x, dims=(2, 1, 0))
    both = [apply("conv1d", turned, weight), apply("max_pool1d", turned, kernel_size=2)]
    found = topological(run_passes(graph([x, weight], *both)).roots)
    calls = [node for node in found if isinstance(node.operation, LibraryCall)]
    assert len(calls) == 2 and calls[0].operands[0] is calls[1].operands[0]
