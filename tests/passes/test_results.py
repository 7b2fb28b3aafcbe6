"""Every result gets memory of its own, and stays what it is."""

from __future__ import annotations

import pytest
import torch

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import topological
from fusegen.ops import build
from fusegen.passes import pipeline
from fusegen.passes.results import COMPUTED
from tests.emulated import apply, graph, value
from tests.emulated import build as compiled

FLOATS = [DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64]


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_number_keeps_its_dtype(dtype: DType) -> None:
    zero = apply("to", build.constant(0.0, DType.FLOAT32), dtype=dtype)
    (root,) = pipeline.run(graph([value("x", "n")], zero)).roots
    assert root.type == zero.type and isinstance(root.operation, COMPUTED)
    (kernels,) = compiled([graph([value("x", "n")], zero)], check=True)
    assert [float(result) for result in kernels(torch.ones(3))] == [0.0]


def test_what_is_given_or_returned_twice_is_copied() -> None:
    x = value("x", "n")
    y = apply("relu", x)
    found = pipeline.run(graph([x], x, y, y))
    assert len(set(found.roots)) == 3
    assert all(isinstance(root.operation, COMPUTED) for root in found.roots)
    assert [node.operation.name for node in topological(found.roots)].count("clone") == 2
