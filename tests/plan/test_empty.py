"""Results without elements."""

from __future__ import annotations

import pytest
import torch

from fusegen.ir.graph import Node
from tests.emulated import apply, graph, planned, run, value

X = value("x", 0, 3)
WEIGHT = value("weight", 4, 3)


@pytest.mark.parametrize(
    "result",
    [
        pytest.param(apply("exp", X), id="elementwise"),
        pytest.param(apply("softmax", X, dim=1), id="rows"),
        pytest.param(apply("softmax", X, dim=0), id="columns"),
        pytest.param(apply("layer_norm", X, normalized_shape=(3,)), id="norm"),
        pytest.param(apply("linear", X, WEIGHT), id="product"),
        pytest.param(apply("logsumexp", apply("linear", X, WEIGHT), dim=1), id="product rows"),
    ],
)
def test_a_result_without_elements_is_planned_and_never_launched(result: Node) -> None:
    one = graph([X, WEIGHT], result)
    assert {step.why for step in planned(one).steps} == {"the results have no elements"}
    (made,) = run(one, [torch.empty(0, 3), torch.ones(4, 3)], check=True)
    assert list(made.shape) == [size.constant for size in result.shape]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("sum", 0.0), ("logsumexp", -float("inf")), ("mean", float("nan")), ("prod", 1.0)],
)
def test_a_reduction_of_nothing_is_computed(name: str, expected: float) -> None:
    x = value("x", 2, 0)
    (made,) = run(graph([x], apply(name, x, dim=1)), [torch.empty(2, 0)], check=True)
    torch.testing.assert_close(made, torch.full((2,), expected), equal_nan=True)


def test_a_reduction_over_the_columns_of_an_empty_product() -> None:
    x, weight = value("x", 2, 3), value("weight", 0, 3)
    result = apply("sum", apply("linear", x, weight), dim=(1,))
    (made,) = run(graph([x, weight], result), [torch.ones(2, 3), torch.empty(0, 3)], check=True)
    assert torch.equal(made, torch.zeros(2))


def test_an_epilogue_with_a_reduction_that_has_no_result() -> None:
    x, weight, nothing = value("x", 4, 3), value("weight", 1, 3), value("nothing", 0)
    result = apply("sum", apply("add", apply("linear", x, weight), nothing), dim=(0,))
    tensors = [torch.ones(4, 3), torch.ones(1, 3), torch.empty(0)]
    (made,) = run(graph([x, weight, nothing], result), tensors, check=True)
    assert list(made.shape) == [0]
