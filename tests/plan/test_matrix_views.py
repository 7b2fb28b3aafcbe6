"""Operands as matrices in memory: which of their layouts the tensor cores can read."""

from __future__ import annotations

from collections.abc import Mapping

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Node
from fusegen.ir.integers import Integer
from fusegen.plan.kernels.matrix_view import BatchDim, Major, MatrixView, run_stride
from fusegen.plan.kernels.product import ProductPlan
from fusegen.plan.kernels.product_forms import WgmmaForm
from tests.emulated import Size, apply, graph, planned, value


def cores(
    left: Node, right: Node, inputs: list[Node], hints: Mapping[str, int] | None = None
) -> WgmmaForm | None:
    """The tensor-core form of a plain product."""
    (step,) = planned(graph(inputs, apply("matmul", left, right)), hints).steps
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
    runs, batch = (1, 2, 3), Integer.symbol("b")
    batches = (BatchDim(Integer.symbol("batch_index", batch), batch, one),)
    assert form.left == MatrixView(form.left.buffer, zero, batches, two, three, Major.DEPTH, runs)
    assert form.right == MatrixView(form.right.buffer, zero, batches, three, two, Major.LINE, runs)


def test_heads_that_lie_within_lines_are_matrices_of_their_own() -> None:
    batch, time = Integer.symbol("b"), Integer.symbol("t")
    x, y = half("x", "b", "t", 48), half("y", "b", 3, 16, "t")
    heads = apply("reshape", x, shape=(batch, time, Integer.of(3), Integer.of(16)))
    form = cores(transposed(heads, 1, 2), y, [x, y])
    assert form is not None
    index = Integer.symbol("batch_index", batch * 3)
    assert form.left.batches == (
        BatchDim(index // 3, batch, stride(0)),
        BatchDim(index % 3, Integer.of(3), 16 * stride(2)),
    )
    assert (form.left.line_stride, form.left.depth_stride) == (stride(1), stride(2))
    assert [dim.stride for dim in form.right.batches] == [stride(0), stride(1)]


def test_a_matrix_may_be_that_of_several_heads() -> None:
    x, y = half("x", "b", 2, 3, "t", 16), half("y", "b", 2, 1, "t", 16)
    form = cores(x, transposed(y, 3, 4), [x, y])
    assert form is not None
    batch = Integer.symbol("b")
    index = Integer.symbol("batch_index", batch * 6)
    assert form.right.batches == (
        BatchDim(index // 6, batch, stride(0)),
        BatchDim(index // 3 % 2, Integer.of(2), stride(1)),
    )


def test_a_copy_knows_five_dims() -> None:
    x, y = half("x", 2, 3, "b", 5, "t", 16), half("y", 16, 32)
    assert cores(x, y, [x, y]) is not None  # all dims but the last are rows of one matrix
    z = half("z", 2, 3, "b", 5, 16, 32)
    form = cores(x, z, [x, z])
    assert form is not None and len(form.left.batches) == len(form.right.batches) == 1
    assert form.right.runs == (4, 5, 6)  # which must lie as one dim does
    heads = transposed(half("h", 2, 3, "b", "t", 5, 16), 3, 4)
    few = {"b": 2, "t": 2}  # of which a copy would not pay
    assert cores(heads, z, [heads.operands[0], z], few) is None


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
