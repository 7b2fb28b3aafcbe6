"""Epilogues of products on the tensor cores, by how many neighbouring columns a thread holds."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from fusegen.ir.graph import Graph, Node
from fusegen.plan.kernels.product import ProductPlan
from fusegen.plan.kernels.product_forms import Exchange
from tests.emulated import apply, build, graph, planned
from tests.kernels.families import add, gelu, group_norm
from tests.kernels.test_operand_layouts import check, half, matmul, normal, transposed

DEPTH = 40


def linear(columns: int, epilogue: Callable[[Node, Node], Node]) -> Graph:
    """`epilogue` of x @ w.T and of a value for each of its columns."""
    x, w, b = half("x", "m", DEPTH), half("w", columns, DEPTH), half("b", columns)
    return graph([x, w, b], epilogue(matmul(x, transposed(w)), b))


def check_linear(one: Graph, columns: int, neighbours: int) -> None:
    """The plan's choice, and the results of a full tile and a part of one."""
    (cores,) = (s.tensor_cores for s in planned(one).steps if isinstance(s, ProductPlan))
    assert cores is not None and cores.neighbours == neighbours
    (kernels,) = build([one], check=True)
    tensors = [normal(133, DEPTH), normal(columns, DEPTH), normal(columns)]
    check(kernels, one, tensors, form="tensor_kernel")


@pytest.mark.parametrize(
    ("columns", "groups", "neighbours"),
    [(64, 8, 8), (64, 4, 8), (288, 9, 8), (128, 2, 8), (256, 2, 8), (48, 3, 2), (40, 5, 2)],
)
def test_statistics_over_groups(columns: int, groups: int, neighbours: int) -> None:
    one = linear(columns, lambda product, b: group_norm(groups)(add(product, b)))
    check_linear(one, columns, neighbours)


@pytest.mark.parametrize(("columns", "neighbours"), [(64, 8), (160, 8), (264, 2)])
def test_states_of_rows(columns: int, neighbours: int) -> None:
    """160 columns are two parts of 64 and half a part."""
    one = linear(columns, lambda product, b: apply("logsumexp", add(product, b), dim=1))
    check_linear(one, columns, neighbours)


@pytest.mark.parametrize("special", [-math.inf, math.inf, math.nan])
@pytest.mark.parametrize("count", [1, 8, 64])
def test_states_of_rows_with_infinities(special: float, count: int) -> None:
    """One element, a thread's whole vector, a whole row; the values beside them are far apart."""
    one = linear(64, lambda product, b: apply("logsumexp", add(product, b), dim=1))
    (kernels,) = build([one], check=True)
    b = torch.linspace(-9e4, 9e4, 64).bfloat16()
    b[32 : 32 + count] = special
    b[: max(0, count - 32)] = special
    (result,) = kernels(normal(5, DEPTH), normal(64, DEPTH), b, check=True)
    if count == 64 or special != -math.inf:
        assert torch.equal(
            result.float().nan_to_num(7.0), torch.full((5,), special).nan_to_num(7.0)
        )
    else:
        assert torch.equal(result, torch.full((5,), 9e4).bfloat16())


@pytest.mark.parametrize(
    ("columns", "neighbours"), [(32, 8), (96, 8), (288, 8), (264, 8), (40, 8), (268, 2), (6, 2)]
)
def test_elements(columns: int, neighbours: int) -> None:
    check_linear(linear(columns, lambda product, b: gelu(add(product, b))), columns, neighbours)


def exchange(one: Graph) -> Exchange:
    (cores,) = (s.tensor_cores for s in planned(one).steps if isinstance(s, ProductPlan))
    assert cores is not None
    return cores.exchange


@pytest.mark.parametrize("columns", [32, 288])
def test_lanes_exchange_sums_of_columns_that_are_neighbours_in_memory(columns: int) -> None:
    x, w, b = half("x", "m", DEPTH), half("w", DEPTH, columns), half("b", columns)
    one = graph([x, w, b], group_norm(columns // 32)(add(matmul(x, w), b)))
    assert exchange(one) is Exchange.BY_LANES
    (kernels,) = build([one], check=True)
    tensors = [normal(133, DEPTH), normal(DEPTH, columns), normal(columns)]
    check(kernels, one, tensors, form="tensor_kernel")


def test_lanes_exchange_results_that_do_not_depend_on_their_place() -> None:
    x, w = half("x", "m", DEPTH), half("w", DEPTH, 288)
    one = graph([x, w], gelu(matmul(x, w)))
    assert exchange(one) is Exchange.OF_RESULTS
    (kernels,) = build([one], check=True)
    check(kernels, one, [normal(133, DEPTH), normal(DEPTH, 288)], form="tensor_kernel")


@pytest.mark.parametrize("columns", [8, 40, 264, 268, 30, 2])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("is_across", [False, True])
def test_columns_known_at_run_time(columns: int, has_bias: bool, is_across: bool) -> None:
    """Results go through shared memory, as many together as divide the number of columns."""
    x, b = half("x", "m", DEPTH), half("b", "n")
    w = half("w", DEPTH, "n") if is_across else half("w", "n", DEPTH)
    product = matmul(x, w if is_across else transposed(w))
    one = graph([x, w, b], gelu(add(product, b) if has_bias else product))
    assert exchange(one) is Exchange.THROUGH_SHARED
    (kernels,) = build([one], check=True)
    right = normal(DEPTH, columns) if is_across else normal(columns, DEPTH)
    is_copied = columns % 8 == 0 or not is_across  # lines start at multiples of 16 bytes
    form = "tensor_kernel" if is_copied else ""
    check(kernels, one, [normal(133, DEPTH), right, normal(columns)], form=form)


def test_batches_of_right_operands_leave_no_dims_to_exchange_lines_by() -> None:
    x, w = half("x", 2, "m", DEPTH), half("w", 2, 64, DEPTH)
    one = graph([x, w], matmul(x, transposed(w)))
    assert exchange(one) is Exchange.OF_RESULTS
    (kernels,) = build([one], check=True)
    check(kernels, one, [normal(2, 37, DEPTH), normal(2, 64, DEPTH)], form="tensor_kernel")
