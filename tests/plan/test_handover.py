"""Where a product makes its normalised operand from the rows' statistics, and where it reads it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fusegen.compiler.explanation import Explanation
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node
from fusegen.plan.boundaries import boundaries, covered
from fusegen.plan.cost import H100, SizeHints
from fusegen.plan.group import Group
from fusegen.plan.handover import handover
from fusegen.plan.kernels.module import ModulePlan
from fusegen.plan.kernels.product import ProductPlan
from fusegen.plan.needs import needed_for
from fusegen.plan.partition import Dependencies
from tests.emulated import apply, graph, planned, value
from tests.kernels.families import add, softmax
from tests.kernels.test_normalised_operands import HINTS, SLOW_MEMORY, layer_norm, rms_norm
from tests.kernels.test_operand_layouts import matmul, transposed

BFLOAT16 = DType.BFLOAT16


def product(
    norm: Callable[..., Node], depth: int, columns: int, dtype: DType = BFLOAT16, affine: int = 0
) -> Graph:
    x, w = value("x", "m", depth, dtype=dtype), value("w", columns, depth, dtype=dtype)
    more = [value(f"affine_{i}", depth, dtype=dtype) for i in range(affine)]
    return graph([x, w, *more], matmul(norm(x, *more), transposed(w)))


def stored(plan: ModulePlan) -> set[str]:
    """The workspaces by name."""
    return {buffer.name for buffer in plan.workspaces}


def is_handed_over(plan: ModulePlan) -> bool:
    products = [step for step in plan.steps if isinstance(step, ProductPlan)]
    return all(step.prologues for step in products)


@pytest.mark.parametrize(
    ("norm", "affine", "rows", "depth", "columns", "workspaces"),
    [
        (layer_norm, 2, 65536, 1024, 128, {"centre", "rsqrt"}),
        (rms_norm, 1, 65536, 1024, 128, {"rsqrt"}),
        (layer_norm, 2, 262144, 256, 256, {"centre", "rsqrt"}),
        (layer_norm, 2, 16384, 1024, 1024, {"narrow_type"}),  # made four times
        (layer_norm, 2, 4096, 4096, 1024, {"narrow_type"}),
        (rms_norm, 1, 8192, 4096, 4096, {"narrow_type"}),
        (layer_norm, 2, 1024, 1024, 128, {"narrow_type"}),  # few tiles
        (softmax, 0, 65536, 512, 64, {"narrow_type"}),  # many instructions
    ],
)
def test_what_the_model_says_is_quicker(
    norm: Callable[..., Node],
    affine: int,
    rows: int,
    depth: int,
    columns: int,
    workspaces: set[str],
) -> None:
    plan = planned(product(norm, depth, columns, affine=affine), {"m": rows})
    assert stored(plan) == workspaces
    assert is_handed_over(plan) is (workspaces != {"narrow_type"})


def test_estimates_fall() -> None:
    """The time for two kernels is less than that for the norm and the product apart."""
    together = planned(product(layer_norm, 1024, 128, affine=2), {"m": 65536})
    seconds = sum(step.cost.estimate(H100) for step in together.steps)
    moved = 2 * 65536 * (1024 + 1024 + 1024 + 128)  # reads x, writes and reads the norm, writes y
    assert seconds < moved / H100.bandwidth + 2 * H100.launch


def test_the_time_of_preparing_is_in_the_estimate() -> None:
    """Not in the floor, which bytes and the products' operations make."""
    product_step = planned(product(layer_norm, 1024, 128, affine=2), {"m": 65536}).steps[1]
    cost = product_step.cost
    assert cost.floor(H100) < 60e-6 < cost.estimate(H100) == cost.least_seconds


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.FLOAT64])
def test_wide_operands_stand_in_memory(dtype: DType) -> None:
    plan = planned(product(layer_norm, 1024, 128, dtype), {"m": 65536})
    assert not is_handed_over(plan)


def test_what_is_returned_too_stands_in_memory() -> None:
    x, w = value("x", "m", 72, dtype=BFLOAT16), value("w", 264, 72, dtype=BFLOAT16)
    normal = layer_norm(x)
    plan = planned(graph([x, w], matmul(normal, transposed(w)), normal), HINTS, device=SLOW_MEMORY)
    assert not is_handed_over(plan)


def test_what_others_than_products_read_stands_in_memory() -> None:
    x, w = value("x", "m", 72, dtype=BFLOAT16), value("w", 72, 72, dtype=BFLOAT16)
    normal = softmax(layer_norm(x))
    down = apply("mean", normal, dim=0)  # along other rows
    plan = planned(graph([x, w], matmul(normal, w), down), HINTS, device=SLOW_MEMORY)
    assert not is_handed_over(plan)


def test_all_products_that_read_it_take_it() -> None:
    """As the layers that make queries, keys and values of a norm."""
    x = value("x", "m", 1024, dtype=BFLOAT16)
    weights = [value(f"w{i}", 64, 1024, dtype=BFLOAT16) for i in range(3)]
    normal = rms_norm(x)
    one = graph([x, *weights], *(matmul(normal, transposed(w)) for w in weights))
    plan = planned(one, {"m": 65536}, device=SLOW_MEMORY)
    assert len(plan.steps) == 4 and is_handed_over(plan) and stored(plan) == {"rsqrt"}
    all_of_them, *each = needed_for(plan)
    assert all_of_them == {0, 1, 2} and set(each) == {frozenset([i]) for i in range(3)}


def test_norms_that_follow_each_other() -> None:
    """What the second reduces is the first's result, which it computes in one kernel."""
    x, w = value("x", "m", 72, dtype=BFLOAT16), value("w", 264, 72, dtype=BFLOAT16)
    one = graph([x, w], matmul(softmax(layer_norm(x)), transposed(w)))
    plan = planned(one, HINTS, device=SLOW_MEMORY)
    assert is_handed_over(plan)
    assert stored(plan) == {"centre", "rsqrt", "amax", "sum"}


def test_one_statistic_for_each_row_is_stored_and_not_made_again() -> None:
    x, w = value("x", "m", 72, dtype=BFLOAT16), value("w", 264, 72, dtype=BFLOAT16)
    one = graph([x, w], matmul(rms_norm(x), transposed(w)))
    plan = planned(one, HINTS, device=SLOW_MEMORY)
    names = {node.operation.name for node in covered(plan.steps[1])}
    assert "rsqrt" not in names and "mul" in names


def test_what_a_group_stores_for_others_is_read() -> None:
    """A residual's sum: the product normalises what it reads of it."""
    x, y = (value(name, "m", 72, dtype=BFLOAT16) for name in "xy")
    w = value("w", 264, 72, dtype=BFLOAT16)
    total = add(x, y)
    one = graph([x, y, w], matmul(layer_norm(total), transposed(w)), total)
    plan = planned(one, HINTS, device=SLOW_MEMORY)
    assert is_handed_over(plan) and stored(plan) == {"centre", "rsqrt"}
    assert "add" not in {node.operation.name for node in covered(plan.steps[1])}


def test_nothing_is_left_of_a_group_without_reductions() -> None:
    x = value("x", "m", 8, dtype=BFLOAT16)
    one = graph([x], apply("relu", x))
    dependencies = Dependencies.of(one)
    (node,) = dependencies.nodes
    group = Group((node,), (node,))
    assert handover(node, group, (), dependencies.producers, {node: 0}) is None


def test_the_plan_says_why() -> None:
    one = product(layer_norm, 1024, 128, affine=2)
    plan = planned(one, {"m": 65536})
    told = boundaries(plan, SizeHints({"m": 65536}))
    assert len(told) == 1 and "leaves what it reduces each row to" in told[0].why
    text = " ".join(Explanation.of(plan, told).as_text().split())
    assert "layer_norm | layer_norm_matmul: the first leaves" in text
    assert "an operand is made in shared memory" in text
