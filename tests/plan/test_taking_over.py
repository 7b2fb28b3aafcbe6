"""Which products make their operands themselves, and what is left of those that made them."""

from __future__ import annotations

import pytest

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node
from fusegen.ops.record import Product
from fusegen.passes import pipeline
from fusegen.passes.differentiation import differentiate
from fusegen.plan.attention_limits import stores_no_scores
from fusegen.plan.boundaries import boundaries
from fusegen.plan.buffers import BufferRole
from fusegen.plan.expressions import Load, walk
from fusegen.plan.group import Group
from fusegen.plan.kernels.back_to_back import BackToBackPlan
from fusegen.plan.kernels.module import ModulePlan
from fusegen.plan.module import plan_module
from fusegen.plan.needs import needed_for
from fusegen.plan.partition import Dependencies
from fusegen.plan.taking_over import Readers, left_behind, readers_of_products, with_makers
from tests.emulated import apply, graph, planned
from tests.kernels.families import mul, softmax
from tests.kernels.test_attention import attention, half
from tests.kernels.test_operand_layouts import matmul, transposed


def operands() -> tuple[Node, Node, Node]:
    return half("q", "b", "m", 64), half("k", "b", "n", 64), half("v", "b", "n", 64)


def backward() -> ModulePlan:
    q, k, v = operands()
    found = differentiate(graph([q, k, v], attention(q, k, v)), stores_no_scores)
    assert found is not None
    return plan_module(pipeline.run(found.backward), DType.BFLOAT16)


def pairs(plan: ModulePlan) -> list[BackToBackPlan]:
    return [step for step in plan.steps if isinstance(step, BackToBackPlan)]


def grouped(model: Graph) -> tuple[Dependencies, dict[int, Group], dict[Node, int]]:
    """Each operation in a group of its own, by its rank."""
    dependencies = Dependencies.of(model)
    groups = {i: dependencies.group((node,)) for i, node in enumerate(dependencies.nodes)}
    return dependencies, groups, {node: i for i, node in enumerate(dependencies.nodes)}


def left_of(
    groups: dict[int, Group], readers: Readers, dependencies: Dependencies, rank: dict[Node, int]
) -> dict[int, Group | None]:
    """What is left where each reader makes its operand by itself."""
    takers = [with_makers((groups[key],), makers, rank) for key, makers in readers.makers.items()]
    given = (dependencies.users, dependencies.returned, dependencies.producers)
    left = left_behind(groups, takers, *given)
    assert all(left.pop(key) is None for key in readers.makers)
    return left


def test_readers_of_the_same_products_belong_together() -> None:
    q, k, v = operands()
    gate = apply("sigmoid", matmul(q, transposed(k)))
    other = apply("relu", matmul(v, transposed(v)))
    model = pipeline.run(
        graph([q, k, v], matmul(gate, v), matmul(transposed(mul(gate, 2.0)), q), matmul(other, k))
    )
    dependencies, groups, rank = grouped(model)
    found = readers_of_products(groups, dependencies.producers)
    assert sorted(len(readers.makers) for readers in found) == [1, 2]
    for readers in found:
        for key, makers in readers.makers.items():
            assert sum(isinstance(node.operation, Product) for node in makers) == 1
            taken = with_makers((groups[key],), makers, rank)
            assert {*taken.nodes} == makers | {*groups[key].nodes}
            assert taken.results == groups[key].results


def test_what_others_need_is_left() -> None:
    q, k, v = operands()
    gate = apply("sigmoid", matmul(q, transposed(k)))
    model = pipeline.run(graph([q, k, v], matmul(gate, v), apply("sum", gate, dim=-1)))
    dependencies, groups, rank = grouped(model)
    (readers,) = readers_of_products(groups, dependencies.producers)
    left = left_of(groups, readers, dependencies, rank)
    assert left == {key: groups[key] for key in left} and len(left) == 2

    alone = pipeline.run(graph([q, k, v], matmul(gate, v)))
    dependencies, groups, rank = grouped(alone)
    (readers,) = readers_of_products(groups, dependencies.producers)
    assert set(left_of(groups, readers, dependencies, rank).values()) == {None}


def test_what_the_makers_read_is_stored() -> None:
    """It may have been in their group only so far: what a row is divided by, say."""
    q, k, v = operands()
    scores = matmul(q, transposed(k))
    gate = apply("div", scores, apply("sum", apply("exp", q), dim=-1, keepdim=True))
    model = pipeline.run(graph([q, k, v], matmul(gate, v)))
    dependencies, groups, rank = grouped(model)
    sums = next(node for node in rank if node.operation.name == "sum")
    joined = dependencies.group(tuple(n for n in rank if not isinstance(n.operation, Product)))
    assert sums not in joined.results
    (readers,) = readers_of_products(groups, dependencies.producers)
    whole = {key: group for key, group in groups.items() if group.nodes[0] not in joined.nodes}
    whole[1000] = joined
    kept = left_of(whole, readers, dependencies, rank)[1000]
    assert kept is not None and kept.results == (sums,)


def test_gradients_of_keys_and_values_share_a_kernel() -> None:
    plan = backward()
    assert [sorted(b.name for b in step.written) for step in pairs(plan)] == [
        ["gradient_of_q"],
        ["gradient_of_k", "gradient_of_v"],
    ]
    assert len({step.name for step in plan.steps}) == len(plan.steps)


def test_a_kernel_is_needed_for_its_own_gradients_only() -> None:
    """Though others make the same of the first products."""
    plan = backward()
    needed = needed_for(plan)
    by_step = dict(zip(plan.steps, needed, strict=True))
    of_queries, of_others = pairs(plan)
    assert by_step[of_queries] == frozenset((0,)) and by_step[of_others] == frozenset((1, 2))


def test_why_they_are_two_kernels() -> None:
    """Of three products two share a kernel, and what the third one is added to is stored."""
    q, k, v = operands()
    gate = apply("sigmoid", matmul(q, transposed(k)))
    first, second, third = (matmul(gate, x) for x in (v, k, mul(v, 2.0)))
    model = graph([q, k, v], first, second, apply("add", third, first))
    plan = planned(model, {"b": 64, "m": 1024, "n": 1024})
    assert len(pairs(plan)) == 2
    told = {boundary.why for boundary in boundaries(plan)}
    assert any(why.startswith("each makes the operands of its products itself") for why in told)


def test_an_operation_that_another_kernel_makes_in_registers_is_stored() -> None:
    """Where what follows a product reads it, which does not make it itself."""
    a, b, w = (
        half(name, *shape) for name, *shape in (("a", "m", 64), ("b", 64, 64), ("w", 64, 64))
    )
    product = matmul(a, b)
    gate = apply("tanh", product)
    opened = mul(matmul(apply("sigmoid", product), w), gate)
    plan = planned(graph([a, b, w], opened, matmul(gate, w)))
    written = {buffer for step in plan.steps for buffer in step.written}
    read = {
        load.buffer for step in pairs(plan) for load in walk(step.values) if isinstance(load, Load)
    }
    assert all(buffer in written or buffer.role is BufferRole.ARGUMENT for buffer in read)


def test_what_was_left_behind_may_be_made_by_others_again() -> None:
    """Groups that are gone take over nothing, and give nothing."""
    a, b, c = half("a", "m", 64), half("b", 64, 32), half("c", 32, "n")
    d, e, u = half("d", "n", 64), half("e", "m", 48), half("u", "m", 16)
    first = apply("relu", matmul(a, b))
    second = apply("relu", matmul(first, c))
    outputs = matmul(second, d), matmul(turned(second), e), matmul(turned(first), u)
    plan = planned(graph([a, b, c, d, e, u], *outputs))
    assert pairs(plan)


def turned(x: Node) -> Node:
    return apply("transpose", x, dim0=0, dim1=1)


@pytest.mark.parametrize("norm", ["silu", "rms_norm"])
def test_gradients_of_what_queries_and_keys_are_made_of(norm: str) -> None:
    """What follows a gradient, or comes beside it, is done apart where the kernel cannot."""
    q, k, v = operands()
    attributes = {"normalized_shape": (64,), "eps": 0.1} if norm == "rms_norm" else {}
    made = [apply(norm, x, **attributes) for x in (q, k)]
    found = differentiate(graph([q, k, v], attention(*made, v)), stores_no_scores)
    assert found is not None
    plan = plan_module(pipeline.run(found.backward), DType.BFLOAT16)
    sizes = {"b": 1, "m": 1009, "n": 1013}
    written = [buffer for step in plan.steps for buffer in step.written]
    assert len(pairs(plan)) == 2
    assert all(buffer.type.count.evaluate(sizes) % (1009 * 1013) for buffer in written)


def test_deviations_are_those_of_the_very_same_products() -> None:
    """What is taken from a sum of products has to be what was summed: made again, it may be
    rounded otherwise, and what is left be nothing but that."""
    q, k, v = operands()
    scores = matmul(q, transposed(k))
    deviations = apply("sub", scores, apply("mean", scores, dim=-1, keepdim=True))
    model = pipeline.run(graph([q, k, v], matmul(deviations, v)))
    dependencies, groups, _ = grouped(model)
    assert readers_of_products(groups, dependencies.producers) == []


def test_weights_that_are_saved_keep_their_gradients_whole() -> None:
    """The row's sum of the gradients, and what is taken from it, are one kernel's."""
    q, k, v = operands()
    weights = softmax(matmul(q, transposed(k)))
    found = differentiate(graph([q, k, v], matmul(weights, v), weights), stores_no_scores)
    assert found is not None
    plan = plan_module(pipeline.run(found.backward), DType.BFLOAT16)
    assert not pairs(plan)


def test_values_that_are_widened_elsewhere() -> None:
    """A norm's input is widened for its own gradient, whatever products make of it."""
    q, k, v = operands()
    normed = apply("rms_norm", v, normalized_shape=(64,), eps=0.1)
    found = differentiate(graph([q, k, v], attention(q, k, normed)), stores_no_scores)
    assert found is not None
    plan = plan_module(pipeline.run(found.backward), DType.BFLOAT16)
    assert len(pairs(plan)) == 2
