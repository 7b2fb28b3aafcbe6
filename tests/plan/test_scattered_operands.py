"""Operands that are no matrices in memory are copied for the tensor cores, and no others."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Node
from fusegen.plan.kernels.elementwise import ElementwisePlan
from fusegen.plan.kernels.product import ProductPlan
from tests.emulated import apply, build, graph, planned, value
from tests.kernels.test_operand_layouts import check, half, heads, matmul, normal, transposed

# Of which a copy is worth it.
MANY = {"b": 64, "t": 128}


def merged(x: Node) -> Node:
    """(batch, heads, time, width) as (batch * time, heads * width)."""
    batch, count, time, width = x.shape
    return apply(
        "reshape", apply("transpose", x, dim0=1, dim1=2), shape=(batch * time, count * width)
    )


def copies_and_products(
    result: Node, *inputs: Node, hints: Mapping[str, int] = MANY
) -> tuple[int, list[bool]]:
    """How many kernels only copy, and which products run on the tensor cores as they are."""
    plan = planned(graph(inputs, result), hints)
    copies = sum(isinstance(step, ElementwisePlan) for step in plan.steps)
    products = [step for step in plan.steps if isinstance(step, ProductPlan)]
    forms = [p.tensor_cores is not None and p.tensor_cores.split is None for p in products]
    return copies, forms


def test_heads_side_by_side_are_copied_once() -> None:
    x, w, v = half("x", "b", 4, "t", 32), half("w", 128, 128), half("v", 256, 128)
    rows = merged(x)
    one = matmul(rows, transposed(w))
    assert copies_and_products(one, x, w) == (1, [True])
    both = matmul(
        matmul(rows, transposed(w)), matmul(transposed(rows), matmul(rows, transposed(v)))
    )
    copies, forms = copies_and_products(both, x, w, v)
    assert copies == 1
    assert all(forms)


def test_one_copy_serves_both_operands() -> None:
    x = half("x", "b", 4, "t", 32)
    rows = merged(x)
    assert copies_and_products(matmul(transposed(rows), rows), x) == (1, [True])


def test_what_is_a_matrix_is_not_copied() -> None:
    x, w = half("x", "b", "t", 128), half("w", "b", 4, 32, "t")
    assert copies_and_products(matmul(heads(x, 4), w), x, w) == (0, [True])


def test_small_products_read_where_they_stand() -> None:
    x, w = half("x", "b", 4, "t", 32), half("w", 128, 128)
    few = {"b": 1, "t": 16}
    assert copies_and_products(matmul(merged(x), transposed(w)), x, w, hints=few)[0] == 0


def test_float32_is_split_where_it_stands() -> None:
    x, w = value("x", "b", 4, "t", 128), value("w", 512, 512)
    assert copies_and_products(matmul(merged(x), transposed(w)), x, w)[0] == 0


@pytest.mark.parametrize(
    ("dtype", "stored"), [(DType.BFLOAT16, torch.bfloat16), (DType.FLOAT16, torch.float16)]
)
def test_the_copy_is_what_is_multiplied(dtype: DType, stored: torch.dtype) -> None:
    x, w = value("x", "b", 4, "t", 32, dtype=dtype), value("w", 128, 128, dtype=dtype)
    one = graph([x, w], matmul(merged(x), transposed(w)))
    (kernels,) = build([one], check=True, hints=MANY)
    check(
        kernels,
        one,
        [normal(2, 4, 5, 32, dtype=stored), normal(128, 128, dtype=stored)],
        form="clone",
    )
