"""Operands as matrices in memory: which of their layouts the tensor cores can read."""

from __future__ import annotations

import pytest

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Node
from fusegen.ir.integers import Integer
from fusegen.plan.kernels.matrix_view import Major, MatrixView, run_stride
from fusegen.plan.kernels.product import ProductPlan
from fusegen.plan.kernels.product_forms import WgmmaForm
from tests.emulated import Size, apply, graph, planned, value


def cores(left: Node, right: Node, inputs: list[Node]) -> WgmmaForm | None:
    """The tensor-core form of a plain product."""
    (step,) = planned(graph(inputs, apply("matmul", left, right))).steps
    assert isinstance(step, ProductPlan)
    return step.tensor_cores


def half(name: str, *shape: Size) -> Node:
    return value(name, *shape, dtype=DType.BFLOAT16)


def transposed(x: Node, dim0: int = 0, dim1: int = 1) -> Node:
    return apply("transpose", x, dim0=dim0, dim1=dim1)


def stride(run: int) -> Integer:
    return Integer.of_atom(run_stride(run))


def test_each_operand_may_be_contiguous_either_way() -> None:
    for left_transposed in (False, True):
        for right_transposed in (False, True):
            x = half("x", "k", "m") if left_transposed else half("x", "m", "k")
            y = half("y", "n", "k") if right_transposed else half("y", "k", "n")
            left = transposed(x) if left_transposed else x
            right = transposed(y) if right_transposed else y
            form = cores(left, right, [x, y])
            assert form is not None
            assert form.left.major is (Major.LINE if left_transposed else Major.DEPTH)
            assert form.right.major is (Major.DEPTH if right_transposed else Major.LINE)


def test_strides_are_those_of_the_tensor_at_hand() -> None:
    x, y = half("x", "b", "m", "k"), half("y", "b", "k", "n")
    form = cores(x, y, [x, y])
    assert form is not None
    one, two, three = stride(0), stride(1), stride(2)
    zero = Integer.of(0)
    assert form.left == MatrixView(form.left.buffer, zero, one, two, three, Major.DEPTH, (1, 2, 3))
    assert form.right == MatrixView(form.right.buffer, zero, one, three, two, Major.LINE, (1, 2, 3))


def test_dims_that_make_up_the_rows_form_a_run() -> None:
    x, y = half("x", "b", "t", "k"), half("y", "k", 64)
    form = cores(x, y, [x, y])
    assert form is not None
    assert form.left.runs == (2, 3)
    assert (form.left.line_stride, form.left.depth_stride) == (stride(0), stride(1))


def test_a_slice_begins_inside_the_tensor() -> None:
    x, y = half("x", 64, 128), half("y", 64, 64)
    right = apply("narrow", x, dim=1, start=32, length=64)
    form = cores(y, right, [x, y])
    assert form is not None
    assert form.right.base == 32 * stride(1)


def test_results_of_other_kernels_are_contiguous() -> None:
    x, w = half("x", "m", 64), half("w", 64, 64)
    left = apply("softmax", x, dim=1)
    plan = planned(graph([x, w], apply("matmul", left, w)))
    product = plan.steps[-1]
    assert isinstance(product, ProductPlan) and product.tensor_cores is not None
    assert product.tensor_cores.left.runs == ()
    assert product.tensor_cores.left.line_stride == Integer.of(64)


@pytest.mark.parametrize("dims", [(1, 2), (0, 2)])
def test_heads_between_rows_and_depth_have_no_matrix(dims: tuple[int, int]) -> None:
    x, y = half("x", "b", "t", 4, 64), half("y", "b", 4, 64, "t")
    left = transposed(x, *dims)
    if dims == (1, 2):  # (b, 4, t, 64): a batch is not one step through memory
        assert cores(left, y, [x, y]) is None
