"""Copies of what reductions along different dims share."""

from __future__ import annotations

import pytest

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node, topological
from fusegen.passes import pipeline
from fusegen.passes.private_chains import separate_reductions
from fusegen.plan.arranging import arranged
from fusegen.plan.module import plan_module
from tests.emulated import apply, graph, value


def count(model: Graph, name: str) -> int:
    return sum(node.operation.name == name for node in topological(model.roots))


def primitive(*outputs: Node) -> Graph:
    x, y = X, Y
    return arranged(pipeline.run(graph([x, y], *outputs)))


X, Y = value("x", 1024, 4096), value("y", 1024, 4096)
WEIGHT = value("w", 4096, 512)


def test_reductions_along_other_dims_get_copies() -> None:
    product = apply("mul", X, Y)
    model = primitive(apply("sum", product, dim=0), apply("sum", product, dim=1))
    assert count(model, "mul") == 2
    steps = plan_module(model, DType.FLOAT32).steps
    assert all(b.name in ("y0", "y1") or "states" in b.name for s in steps for b in s.written)


def test_reductions_along_the_same_dims_share() -> None:
    product = apply("mul", X, Y)
    model = primitive(apply("sum", product, dim=1), apply("amax", product, dim=1))
    assert count(model, "mul") == 1
    assert separate_reductions(model) is model


def test_what_is_stored_anyway_is_read() -> None:
    product = apply("mul", X, Y)
    model = primitive(product, apply("sum", product, dim=0), apply("sum", product, dim=1))
    assert count(model, "mul") == 1


@pytest.mark.parametrize("is_read", [False, True])
def test_what_ends_a_product_is_stored_in_its_place(is_read: bool) -> None:
    """Unless something else reads the product, which is stored then."""
    made = apply("matmul", X, WEIGHT)
    ended = apply("relu", apply("add", made, 1.0))
    results = [apply("sum", ended, dim=0), apply("sum", ended, dim=1)]
    results += [apply("exp", made)] if is_read else []
    model = arranged(pipeline.run(graph([X, WEIGHT], *results)))
    assert count(model, "relu") == 1 + is_read
    assert count(model, "matmul") == 1
