"""Which steps each result needs."""

from __future__ import annotations

from fusegen.ir.dtypes import DType
from fusegen.ops.record import Product
from fusegen.passes import pipeline
from fusegen.passes.differentiation import differentiate
from fusegen.plan.boundaries import covered
from fusegen.plan.module import plan_module
from fusegen.plan.needs import needed_for
from tests.emulated import apply, graph, planned, value


def test_steps_of_one_result_are_needed_for_it_alone() -> None:
    x, w, v = value("x", 64, 32), value("w", 48, 32), value("v", 16, 32)
    plan = planned(graph([x, w, v], apply("linear", x, w), apply("linear", x, v)))
    assert sorted(map(sorted, needed_for(plan))) == [[0], [1]]


def test_what_a_later_step_reads_is_needed_too() -> None:
    x, w, v = value("x", 64, 32), value("w", 48, 32), value("v", 16, 48)
    hidden = apply("linear", x, w)
    plan = planned(graph([x, w, v], apply("linear", apply("relu", hidden), v), hidden))
    assert needed_for(plan) == (frozenset({0, 1}), frozenset({0}))


def test_both_kernels_of_a_split_reduction_are_needed() -> None:
    x = value("x", 1 << 20)
    plan = planned(graph([x], apply("sum", x)))
    assert needed_for(plan) == (frozenset({0}),) * 2


def test_a_frozen_weight_needs_no_product_of_its_own() -> None:
    """A linear layer's backward: one product for the input's gradient, one for the weight's."""
    x, w = value("x", "batch", 32), value("w", 48, 32)
    found = differentiate(graph([x, w], apply("gelu", apply("linear", x, w))))
    assert found is not None
    plan = plan_module(pipeline.run(found.backward), DType.FLOAT32)
    products = [
        needs
        for needs, step in zip(needed_for(plan), plan.steps, strict=True)
        if any(isinstance(node.operation, Product) for node in covered(step))
    ]
    assert sorted(map(sorted, products)) == [[0], [1]]
