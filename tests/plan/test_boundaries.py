"""Every boundary between kernels has a reason that names what stands in the way."""

from __future__ import annotations

from fusegen.frontend import Source, elaborate, parse
from fusegen.ir.dtypes import DType
from fusegen.passes import pipeline
from fusegen.plan.boundaries import boundaries
from fusegen.plan.module import plan_module


def reasons(body: str) -> list[str]:
    text = f"model M:\n    input x: [n, 64]\n    w = Linear(64, 64)\n    return {body}\n"
    graph = pipeline.run(elaborate(parse(Source("m.fuse", text))).graph)
    return [b.why for b in boundaries(plan_module(graph, DType.FLOAT32))]


def test_one_kernel_has_none() -> None:
    assert reasons("relu(x) + 1") == []
    assert reasons("logsumexp(w(x), dim=1)") == []  # two kernels of one group


def test_a_second_product() -> None:
    (reason,) = reasons("w(relu(w(x)))")
    assert reason.startswith("a matrix product reads its operands from memory")
    assert reasons("w(x) + (x @ w.weight) * 2") == [
        "no kernel of several matrix products does that"
    ]


def test_a_product_of_what_another_kernel_computes() -> None:
    (reason,) = reasons("w(softmax(x, dim=1))")
    assert reason.startswith("a matrix product reads its operands from memory")


def test_a_library_call() -> None:
    (reason,) = reasons("max_pool1d(exp(x), 3, 1)")
    assert reason == "a library's kernel takes nothing else in"


def test_a_reduction_of_other_rows() -> None:
    found = reasons("sum(x - amax(x, dim=0), dim=1)")
    assert found and all("row" in reason for reason in found)
