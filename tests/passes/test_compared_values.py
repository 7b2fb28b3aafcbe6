"""What is compared with a selection from itself is the same number on both sides."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node, topological
from fusegen.ops.pointwise.casting import AS_STORED
from fusegen.passes import pipeline
from fusegen.passes.compared_values import hold_compared_values
from fusegen.passes.differentiation import differentiate
from fusegen.plan.arranging import arranged
from fusegen.plan.handover import handover
from fusegen.plan.partition import Dependencies
from tests.emulated import apply, graph, run, value
from tests.kernels.families import linear
from tests.ops.examples import torch_dtype

TOKENS, EXPERTS = 67, 4


def gates(dtype: DType) -> Graph:
    """Which expert is each token's best, and how many tokens each expert has."""
    x, router = value("x", TOKENS, 16, dtype=dtype), value("router", EXPERTS, 16, dtype=dtype)
    probs = apply("softmax", linear(x, router), dim=-1)
    best = apply("ge", probs, apply("amax", probs, dim=-1, keepdim=True))
    load = apply("sum", apply("to", best, dtype=DType.FLOAT32), dim=0)
    return graph([x, router], apply("where", best, probs, 0), apply("sum", load))


@pytest.mark.parametrize("dtype", [DType.BFLOAT16, DType.FLOAT16, DType.FLOAT32])
def test_every_row_has_its_greatest_element(dtype: DType) -> None:
    tensors = [torch.randn(n, 16).to(torch_dtype(dtype)) for n in (TOKENS, EXPERTS)]
    chosen, count = run(gates(dtype), tensors)
    assert count >= TOKENS  # equal ones count, too
    assert count == (chosen > 0).sum()


def held(model: Graph) -> list[Node]:
    return [n.operands[0] for n in topological(model.roots) if n.operation is AS_STORED]


def test_only_what_both_sides_have_is_held() -> None:
    x, y = value("x", 8, 32), value("y", 8, 32)
    u, v = apply("exp", x), apply("exp", y)
    row = {"dim": 1, "keepdim": True}
    masked = apply("where", apply("gt", y, 0), apply("unsqueeze", u, dim=0), -1)
    alike = apply("eq", apply("to", u, dtype=DType.FLOAT64), apply("amin", masked, **row))
    assert held(pipeline.run(graph([x, y], alike)))
    others = (
        apply("ge", u, apply("amax", v, **row)),
        apply("ge", u, apply("mean", u, **row)),
        apply("ge", x, apply("amax", x, **row)),  # stands in memory
        apply("gt", apply("relu", u), 0),
        apply("ne", u, u),
    )
    model = pipeline.run(graph([x, y], *others))
    assert hold_compared_values(model) is model and not held(model)


def test_no_kernel_computes_it_again() -> None:
    model = arranged(pipeline.run(gates(DType.BFLOAT16)))
    assert len(held(model)) == 1


def widened(x: Node) -> Node:
    return apply("to", x, dtype=DType.FLOAT32)


DISTANCES: dict[str, Callable[[Node, Node], Node]] = {
    "difference": lambda p, most: apply("sub", most, p),
    "difference in float32": lambda p, most: apply("sub", widened(most), widened(p)),
    "sum": lambda p, most: apply("add", apply("neg", p), most),
    "quotient": lambda p, most: apply("sub", 1, apply("div", p, most)),
}


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("dtype", [DType.BFLOAT16, DType.FLOAT16])
def test_distances_from_the_greatest_element_are_not_negative(dtype: DType, distance: str) -> None:
    tensors = [torch.randn(n, 16).to(torch_dtype(dtype)) for n in (TOKENS, EXPERTS)]
    x, router = value("x", TOKENS, 16, dtype=dtype), value("router", EXPERTS, 16, dtype=dtype)
    probs = apply("softmax", linear(x, router), dim=-1)
    most = apply("amax", probs, dim=1, keepdim=True)
    distances = apply("sqrt", DISTANCES[distance](probs, most))
    both = [apply("sum", distances, dim=dim) for dim in (0, 1)]
    columns, rows = run(graph([x, router], *both), tensors)
    assert columns.isfinite().all() and rows.isfinite().all()
    difference = (columns.double().sum() - rows.double().sum()).abs() / rows.double().sum()
    assert difference < torch.finfo(torch_dtype(dtype)).eps


def test_neighbours_may_be_computed_twice() -> None:
    x = value("x", 64, 64, dtype=DType.BFLOAT16)
    u = apply("tanh", x)
    left, right = (apply("narrow", u, dim=1, start=start, length=63) for start in (0, 1))
    steps = apply("sub", right, left)
    sums = [apply("sum", each, dim=dim) for dim, each in enumerate((steps, apply("square", steps)))]
    names = [n.operation.name for n in topological(arranged(pipeline.run(graph([x], *sums))).roots)]
    assert names.count("tanh") > 1


def test_what_a_softmax_takes_its_greatest_element_from_is_copied() -> None:
    x = value("x", 64, 64, dtype=DType.BFLOAT16)
    u = apply("tanh", x)
    model = pipeline.run(graph([x], apply("softmax", u, dim=1), apply("sum", u, dim=0)))
    names = [node.operation.name for node in topological(arranged(model).roots)]
    assert names.count("tanh") > 1


@pytest.mark.parametrize("operation", ["ge", "sub"])
def test_a_product_reads_what_its_operand_compares(operation: str) -> None:
    x, w = value("x", "m", 64, dtype=DType.BFLOAT16), value("w", 64, 32, dtype=DType.BFLOAT16)
    normal = apply("rms_norm", x, normalized_shape=(64,))
    best = apply(operation, normal, apply("amax", normal, dim=1, keepdim=True))
    end = apply("mul", best, normal)
    model = arranged(pipeline.run(graph([x, w], apply("matmul", end, w))))
    dependencies = Dependencies.of(model)
    *rows, product = dependencies.nodes
    made = handover(
        rows[-1],
        dependencies.group(tuple(rows)),
        [dependencies.group((product,))],
        dependencies.producers,
        {node: number for number, node in enumerate(dependencies.nodes)},
    )
    assert made is not None
    taken = {node.operation.name for node in made.takers[0].nodes}
    assert operation in taken and taken.isdisjoint({"as_stored", "narrow_type", "rsqrt"})


def test_the_backward_compares_what_the_forward_did() -> None:
    x = value("x", 8, 32, dtype=DType.BFLOAT16)
    u = apply("exp", x)
    best = apply("ge", u, apply("amax", u, dim=1, keepdim=True))
    found = differentiate(graph([x], apply("where", best, apply("sin", x), 0)))
    assert found is not None
    computed = [n.operation.name for n in topological(found.backward.roots)]
    assert "exp" not in computed
