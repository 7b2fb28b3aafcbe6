"""Truth values that are loaded ahead of where they are met: masks of rows, and of a product."""

from __future__ import annotations

import re

import pytest
import torch

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Node
from fusegen.plan.kernels.product import ProductPlan
from fusegen.plan.kernels.rows import RowMapping, RowPlan
from tests.emulated import apply, cuda_text, graph, link, planned, run, value

FLOAT32_UNIT, BFLOAT16_UNIT = 2.0**-24, 2.0**-8


def masked_weights(columns: int | str) -> tuple[list[Node], Node]:
    x, mask = value("x", "n", columns), value("mask", "n", columns, dtype=DType.BOOL)
    kept = apply("where", mask, apply("softmax", x, dim=1), 0.0)
    return [x, mask], kept


@pytest.mark.parametrize("columns", [8, 50, 640, 1000, 1602])
def test_a_mask_of_rows(columns: int) -> None:
    """Of whole vectors and not, in each way that threads share a row."""
    inputs, kept = masked_weights("m")
    x, mask = torch.randn(13, columns), torch.rand(13, columns) < 0.5
    (actual,) = run(graph(inputs, kept), [x, mask], check=True)
    expected = torch.where(mask, torch.softmax(x.double(), 1), 0.0)
    # Exponents and the sum of the powers, each to a few units.
    bound = expected * (8 + x.abs().max() * 2) * FLOAT32_UNIT
    assert ((actual.double() - expected).abs() <= bound).all()


def test_a_mask_of_rows_comes_with_what_the_first_phase_reads() -> None:
    plan = planned(graph(*masked_weights("m")))
    (step,) = plan.steps
    assert isinstance(step, RowPlan)
    kept = [form for form in step.forms if form.most_columns is not None]
    assert kept and all([e.buffer.name for e in form.early] == ["mask"] for form in kept)
    assert {form.mapping for form in kept} >= {RowMapping.WARP, RowMapping.PART, RowMapping.BLOCK}
    assert not step.forms[-1].early  # which reads a row in each phase


def test_what_all_rows_read_alike_comes_late() -> None:
    x, mask = value("x", "n", 640), value("mask", 640, dtype=DType.BOOL)
    kept = apply("where", mask, apply("softmax", x, dim=1), 0.0)
    (step,) = planned(graph([x, mask], kept)).steps
    assert isinstance(step, RowPlan) and not any(form.early for form in step.forms)


@pytest.mark.parametrize(("rows", "columns"), [(70, 264), (130, 130)])
def test_a_mask_of_a_product(rows: int, columns: int) -> None:
    """Of whole vectors of columns, known at run time only, and of pairs."""
    b, depth, dtype = 2, 40, DType.BFLOAT16
    x, y = value("x", b, "n", depth, dtype=dtype), value("y", b, "m", depth, dtype=dtype)
    mask = value("mask", "n", "m", dtype=DType.BOOL)
    product = apply("matmul", x, apply("transpose", y, dim0=1, dim1=2))
    scores = apply("where", mask, product, float("-inf"))
    plan = planned(graph([x, y, mask], scores))
    (step,) = plan.steps
    assert isinstance(step, ProductPlan)
    assert all([e.buffer.name for e in form.early] == ["mask"] for form in step.tensor_forms)
    left, right = (torch.randn(b, *s).bfloat16() for s in ((rows, depth), (columns, depth)))
    kept = torch.rand(rows, columns) < 0.5
    (kernels,) = link([plan], check=True)
    (actual,) = kernels(left, right, kept, check=True)
    exact = left.double() @ right.double().transpose(1, 2)
    assert (actual.isinf() == ~kept).all()
    terms = left.double().abs() @ right.double().abs().transpose(1, 2)
    error = torch.where(kept, actual.double() - exact, 0.0).abs()
    assert (error <= BFLOAT16_UNIT * exact.abs() + 2 * depth * FLOAT32_UNIT * terms).all()


def test_a_mask_of_some_batches() -> None:
    """One for all heads: which it is is told once for the tile."""
    dtype = DType.BFLOAT16
    x, y = value("x", "b", "h", "n", 40, dtype=dtype), value("y", "b", "h", "m", 40, dtype=dtype)
    mask = value("mask", "b", 1, "n", "m", dtype=DType.BOOL)
    product = apply("matmul", x, apply("transpose", y, dim0=2, dim1=3))
    plan = planned(graph([x, y, mask], apply("where", mask, product, float("-inf"))))
    text = cuda_text(plan)
    tensor = [k for k in text.split("__global__")[1:] if "_tensor_kernel(" in k.partition("{")[0]]
    loads = [text for k in tensor for text in re.findall(r"load_vector<bool, vector>[^;]*;", k)]
    assert loads and all("batch_place" in text for text in loads)
    left, right = torch.randn(2, 3, 70, 40).bfloat16(), torch.randn(2, 3, 136, 40).bfloat16()
    kept = torch.rand(2, 1, 70, 136) < 0.5
    (kernels,) = link([plan], check=True)
    (actual,) = kernels(left, right, kept, check=True)
    exact = left.double() @ right.double().transpose(2, 3)
    assert (actual.isinf() == ~kept.expand_as(actual)).all()
    terms = left.double().abs() @ right.double().abs().transpose(2, 3)
    error = torch.where(kept, actual.double() - exact, 0.0).abs()
    assert (error <= BFLOAT16_UNIT * exact.abs() + 2 * 40 * FLOAT32_UNIT * terms).all()


def test_a_rows_divisions_are_made_once() -> None:
    """A mask of the last two dims of three: where its row stands is a remainder."""
    x = value("x", "b", "n", "m")
    mask = value("mask", "n", "m", dtype=DType.BOOL)
    kept = apply("where", mask, apply("softmax", x, dim=2), 0.0)
    text = cuda_text(planned(graph([x, mask], kept)))
    kernels = text.count("__global__")
    assert text.count("row % n") == kernels
    assert text.count("const int64_t row_remainder") == kernels
