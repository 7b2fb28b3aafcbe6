"""The forms of kernels that multiply twice, in the words of `explain`."""

from __future__ import annotations

from fusegen.compiler.row_tile_forms import row_tile_forms
from fusegen.plan.kernels.attention import AttentionPlan
from fusegen.plan.kernels.back_to_back import BackToBackPlan
from tests.emulated import apply, graph, planned
from tests.kernels.test_attention import attention, half, of_tensors
from tests.kernels.test_operand_layouts import matmul, transposed


def test_matrices_are_read_whole_by_either_kind_of_tensor_cores() -> None:
    inputs = of_tensors(64)
    (step,) = planned(graph(inputs, attention(*inputs))).steps
    assert isinstance(step, AttentionPlan)
    assert row_tile_forms(step) == (
        "Hopper's tensor cores on tiles of 128 rows and 64 keys",
        "other tensor cores on tiles of 128 rows and 64 keys",
        "the same of operands read element by element, if these lie otherwise",
    )


def test_what_is_never_a_matrix_has_one_form() -> None:
    q, k, v = half("q", 2, 33, "m", 1), half("k", 2, "m", "n", 1), half("v", 2, "n", "m", 24)
    turned = [apply("permute", x, dims=(0, 2, 1, 3)) for x in (q, v)]
    (step,) = planned(graph([q, k, v], attention(turned[0], k, turned[1]))).steps
    assert isinstance(step, AttentionPlan)
    assert row_tile_forms(step) == (
        "the tensor cores on tiles of 128 rows and 64 keys, of operands read element by element",
    )


def test_of_products_that_are_multiplied_again() -> None:
    q, k, v = of_tensors(64)
    (step,) = planned(graph([q, k, v], matmul(apply("relu", matmul(q, transposed(k))), v))).steps
    assert isinstance(step, BackToBackPlan)
    assert row_tile_forms(step) == (
        "Hopper's tensor cores on tiles of 64 rows and 64 columns of the first products",
        "other tensor cores on tiles of 128 rows and 32 columns of the first products",
        "the same of operands read element by element, if these lie otherwise",
    )
