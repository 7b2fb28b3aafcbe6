"""Backwards of normalisations: rows and the sums over them for the parameters, in one kernel."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph
from fusegen.passes import pipeline
from fusegen.passes.differentiation import differentiate
from fusegen.plan.cost import SizeHints
from fusegen.plan.kernels.module import ModulePlan
from fusegen.plan.kernels.rows import RowMapping, RowPlan
from fusegen.plan.module import plan_module
from fusegen.runtime.loader import emulator_runtime
from tests.emulated import apply, graph, link, planned, value
from tests.trained import Trained, compare, trained

# As many rows as that are planned for; with few, two kernels are as good.
MANY = {"n": 1 << 18}


def normed(width: int, dtype: DType = DType.FLOAT32) -> Graph:
    x = value("x", "n", width, dtype=dtype)
    weight, bias = (value(name, width, dtype=dtype) for name in ("weight", "bias"))
    y = apply("layer_norm", x, weight, bias, normalized_shape=(width,))
    return graph([x, weight, bias], y, name=f"Norm{width}")


def grouped(width: int, groups: int) -> Graph:
    x = value("x", "n", width)
    weight, bias = value("weight", width), value("bias", width)
    y = apply("group_norm", x, weight, bias, num_groups=groups)
    return graph([x, weight, bias], apply("relu", y), name=f"Groups{width}")


def summing(plan: ModulePlan) -> RowPlan:
    """The plan's kernel that sums over rows; the only one that is no sum of what it leaves."""
    first, second = plan.steps
    assert isinstance(first, RowPlan) and isinstance(second, RowPlan)
    assert first.program.sums and first.blocks and not second.program.sums
    return first


def drawn(model: Graph, rows: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(rows)
    shapes = [[s.constant or rows for s in node.shape] for node in model.inputs]
    dtype = getattr(torch, model.inputs[0].dtype.value)
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


# Parts of a warp, blocks, and clusters; groups that neither divide a block's rows nor are divided.
@pytest.mark.parametrize(
    ("model", "mapping"),
    [
        (normed(200), RowMapping.WARP),
        (normed(200, DType.BFLOAT16), RowMapping.WARP),
        (normed(768), RowMapping.PART),
        (normed(1536, DType.BFLOAT16), RowMapping.PART),
        (normed(1100), RowMapping.BLOCK),
        (normed(2560), RowMapping.BLOCK),
        (normed(16384), RowMapping.CLUSTER),
        (grouped(96, 6), RowMapping.WARP),
        (grouped(35, 7), RowMapping.WARP),
    ],
    ids=lambda case: case.name if isinstance(case, Graph) else case.name.lower(),
)
def test_one_kernel_finds_all_gradients(model: Graph, mapping: RowMapping) -> None:
    (made,) = trained([model], MANY)
    assert summing(made.backward.plan).forms[0].mapping is mapping
    for rows in (1, 7):
        compare(made, drawn(model, rows), {"n": rows})


def test_without_rows_the_sums_are_zero() -> None:
    model = normed(200)
    (made,) = trained([model], MANY)
    tensors = drawn(model, 0)
    x, weight, bias = (made.gradients(tensors, [torch.zeros(0, 200)])[n] for n in model.inputs)
    assert x.shape == (0, 200) and not weight.any() and not bias.any()


def test_more_rows_than_are_worked_on_at_once() -> None:
    """Each thread meets several rows."""
    model = normed(200)
    (made,) = trained([model], MANY)
    plan = summing(made.backward.plan)
    assert plan.blocks is not None
    rows = plan.blocks * plan.forms[0].rows_a_block + 5
    compare(made, drawn(model, rows), {"n": rows})


def test_rows_come_ahead_to_parts_of_warps_where_they_are_wide_and_aligned() -> None:
    model = normed(200)
    (made,) = trained([model], MANY)
    x, *others = drawn(model, 2100)
    apart = torch.cat([x, x], dim=1)[:, :200]
    for given, form in ((x, "_ahead_kernel"), (apart, "_warp_kernel")):
        emulator_runtime().take_launched()
        compare(made, [given, *others], {"n": 2100})
        launched = emulator_runtime().take_launched()
        assert any(form in name for name in launched), launched


@pytest.mark.parametrize(("width", "dtype"), [(1024, DType.FLOAT32), (512, DType.FLOAT64)])
def test_sums_of_several_types_share_the_memory_in_which_they_are_added(
    width: int, dtype: DType
) -> None:
    x = value("x", "n", width, dtype=dtype)
    positive = apply("sum", apply("gt", x, 0.0), dim=0)
    results = apply("softmax", x, dim=1), apply("sum", x, dim=0), positive
    plan = planned(graph([x], *results), MANY)
    form = summing(plan).forms[0]
    assert form.rows_a_block > 1 and len(form.program.sums) == 2
    (given,) = drawn(plan.graph, 2500)
    rows, total, count = link([plan], check=True)[0](given, check=True)
    exact = given.double()
    # Sums of 2500 terms around 1 in float32, in any order: 2500 units at most.
    torch.testing.assert_close(total.double(), exact.sum(0), rtol=0, atol=2e-3)
    torch.testing.assert_close(rows.double(), exact.softmax(1), rtol=1e-5, atol=1e-9)
    assert torch.equal(count, (given > 0).sum(0))


def test_rows_ahead_of_which_some_have_the_same_sums() -> None:
    """A weight for each row of four: a block of more rows leaves four rows of sums."""
    x, weight = value("x", "n", 4, 128), value("weight", 4, 128)
    y = apply("softmax", apply("mul", x, weight), dim=2)
    model = graph([x, weight], y)
    (made,) = trained([model], MANY)
    plan = summing(made.backward.plan)
    assert plan.forms[0].ahead is not None
    assert 1 < plan.sum_rows < plan.forms[0].rows_a_block
    for rows in (1, 3, 1100):
        compare(made, drawn(model, rows), {"n": rows})


def test_a_device_without_clusters_keeps_sums_in_memory() -> None:
    model = normed(16384)
    found = differentiate(model)
    assert found is not None
    forward, backward = (
        plan_module(pipeline.run(side), DType.FLOAT32) for side in (found.forward, found.backward)
    )
    plan = summing(backward)
    looping = replace(plan, forms=plan.forms[-1:])
    assert looping.forms[0].most_columns is None
    kernels = link([forward, replace(backward, steps=(looping, *backward.steps[1:]))], check=True)
    compare(Trained(model, found, *kernels), drawn(model, 3), {"n": 3})


def test_the_same_bits_each_time() -> None:
    model = grouped(96, 6)
    (made,) = trained([model], MANY)
    tensors = drawn(model, 9)
    upstream = [torch.randn(9, 96, generator=torch.Generator().manual_seed(1))]
    first, second = (made.gradients(tensors, upstream, seed=seed) for seed in (1, 2))
    assert all(torch.equal(first[node], second[node]) for node in first)


def test_a_bias_before_a_norm_is_summed_where_its_gradient_is_made() -> None:
    x, bias = value("x", "n", 64), value("bias", 64)
    y = apply("softmax", apply("add", x, bias), dim=1)
    found = differentiate(graph([x, bias], y))
    assert found is not None
    summing(plan_module(pipeline.run(found.backward), DType.FLOAT32, SizeHints(MANY)))
