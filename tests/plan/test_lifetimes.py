"""Which memory a call gives back before its end, and the peak of what it has allocated."""

from __future__ import annotations

import pytest

from fusegen.codegen.cuda import cuda_source
from fusegen.ir.dtypes import DType
from fusegen.passes import pipeline
from fusegen.passes.differentiation import differentiate
from fusegen.plan.cost import SizeHints
from fusegen.plan.kernels.library import LibraryPlan
from fusegen.plan.kernels.module import ModulePlan
from fusegen.plan.lifetimes import buffers_read, peak
from fusegen.plan.module import plan_module
from tests.emulated import apply, graph, planned, value

SIZE = 1024


def linear_backward(spent: tuple[str, ...] = ()) -> ModulePlan:
    """The backward of relu(linear(x, w)), all sizes 1024, in float32."""
    x, w = value("x", SIZE, SIZE), value("w", SIZE, SIZE)
    found = differentiate(graph([x, w], apply("gelu", apply("linear", x, w))))
    assert found is not None
    backward = pipeline.run(found.backward)
    names = [node.name for node in backward.inputs]
    return plan_module(backward, DType.FLOAT32, spent=[names.index(name) for name in spent])


def names(plan: ModulePlan) -> list[list[str]]:
    return [[buffer.name for buffer in given_back] for given_back in plan.releases]


def test_parts_of_one_product_are_gone_before_those_of_the_next() -> None:
    plan = linear_backward()
    elementwise, first, second = names(plan)
    assert elementwise == second == []
    assert {"gradient_of_x_left_parts", "gradient_of_x_right_parts"} <= set(first)


def test_a_spent_argument_is_dropped_behind_its_last_reader() -> None:
    """The saved product, which the first step reads, but not the weight, which a later one does."""
    assert names(linear_backward(("linear",)))[0] == ["linear"]
    last = linear_backward(("linear", "x"))
    assert names(last)[0] == ["linear"] and all("x" not in step for step in names(last))


def test_what_is_small_stays() -> None:
    x = value("x", 1 << 20)
    total = apply("sum", x)
    plan = planned(graph([x], apply("exp", apply("sub", x, total)), total))
    assert len(plan.steps) > 2 and names(plan) == [[]] * len(plan.steps)


def test_the_peak_by_hand() -> None:
    """The gradient of the product, both results, and the second product's parts, and the sums of
    as many parts of K; their scales and the marks of its tiles are small."""
    plan = linear_backward()
    matrix = SIZE * SIZE * 4
    found = peak(plan.steps, SizeHints())
    assert found.step is plan.steps[-1]
    assert 0 < found.bytes - (5 + 128 // (SIZE // 128) ** 2) * matrix < matrix // 16


def test_a_product_that_is_only_copied_has_no_memory_of_its_own() -> None:
    dtype = DType.BFLOAT16
    x, y = value("x", 2, 3, 40, 24, dtype=dtype), value("y", 2, 3, 24, 16, dtype=dtype)
    plan = planned(graph([x, y], apply("transpose", apply("matmul", x, y), dim0=1, dim1=2)))
    assert plan.workspaces == () and peak(plan.steps, SizeHints()).bytes == 2 * 3 * 40 * 16 * 2


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16])
def test_what_is_read_is_what_the_launchers_take(dtype: DType) -> None:
    """Of a chain with a convolution, sums that are shared between blocks, a product and rows."""
    image, kernel = value("image", "n", 3, 32, 32, dtype=dtype), value("k", 4, 3, 3, 3, dtype=dtype)
    weight = value("w", 64, 32, dtype=dtype)
    rows = apply("softmax", apply("conv2d", image, kernel, padding=1), dim=3)
    model = graph([image, kernel, weight], apply("gelu", apply("linear", rows, weight)))
    found = differentiate(model)
    assert found is not None
    for made in (found.forward, found.backward):
        plan = plan_module(pipeline.run(made), dtype)
        launchers = cuda_source(plan, ()).launchers
        kernels = [step for step in plan.steps if not isinstance(step, LibraryPlan)]
        assert kernels
        for step in kernels:
            assert set(buffers_read(step)) == set(launchers[step.name].reads)
