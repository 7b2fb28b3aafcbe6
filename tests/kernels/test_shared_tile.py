"""Products on the shared-memory tile: of every layout and type, with steps that end inside K."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from fusegen.codegen.cuda import CudaSource, cuda_source
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node
from fusegen.plan.kernels.product import ProductPlan
from fusegen.plan.strategies.product import STATIC_SHARED, TILE
from fusegen.resources import include_files
from tests import emulated
from tests.emulated import Kernels, apply, build, cuda_text, graph, planned, value
from tests.kernels.families import group_norm
from tests.kernels.test_operand_layouts import matmul, transposed
from tests.ops.examples import torch_dtype
from tests.reference import evaluate

ROWS, COLUMNS, DEPTH = 70, 67, 41


def joined(x: Node) -> Node:
    """A matrix whose columns are the last two dims, exchanged: not evenly apart in memory."""
    rows, first, second = x.shape
    return apply("reshape", transposed(x), shape=(rows, first * second))


Operand = tuple[tuple[int, ...], Callable[[Node], Node]]

LEFT: dict[str, Operand] = {
    "along K": ((ROWS, DEPTH), lambda x: x),
    "across K": ((DEPTH, ROWS), transposed),
    "a part of longer lines": (
        (ROWS, 2 * DEPTH),
        lambda x: apply("narrow", x, dim=1, start=3, length=DEPTH),
    ),
    "the same for all of K": ((ROWS, 1), lambda x: apply("expand", x, size=(ROWS, DEPTH))),
}
RIGHT: dict[str, Operand] = {
    "along K": ((COLUMNS, DEPTH), transposed),
    "across K": ((DEPTH, COLUMNS), lambda x: x),
    "the same for all columns": (
        (DEPTH, 1),
        lambda x: apply("expand", x, size=(DEPTH, COLUMNS)),
    ),
}


def product(left: Operand, right: Operand, dtype: DType = DType.FLOAT32) -> Graph:
    x, y = value("x", *left[0], dtype=dtype), value("y", *right[0], dtype=dtype)
    return graph([x, y], matmul(left[1](x), right[1](y)))


UNEVEN: Operand = ((ROWS, 5, 7), joined)


def uneven() -> Graph:
    return product(UNEVEN, ((35, COLUMNS), lambda y: y))


def tensors(one: Graph) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    made = []
    for node in one.inputs:
        shape = [size.evaluate({}) for size in node.shape]
        numbers = torch.randn(shape, generator=generator, dtype=torch.float64)
        made.append((numbers if node.dtype.is_float else 3 * numbers).to(torch_dtype(node.dtype)))
    return made


def check(kernels: Kernels, one: Graph, given: Sequence[torch.Tensor], seeds: int = 2) -> None:
    """Right against float64 within the rounding of K products and sums, and the same bits for other
    orders of threads; integers are exact."""
    (actual,) = kernels(*given, check=True)
    wide = [t.double() if t.dtype.is_floating_point else t for t in given]
    (expected,) = evaluate(one.roots, dict(zip(one.inputs, wide, strict=True)), {})
    if actual.dtype.is_floating_point:
        sizes = [t.double().abs() for t in given]
        (bound,) = evaluate(one.roots, dict(zip(one.inputs, sizes, strict=True)), {})
        unit = torch.finfo(actual.dtype).eps
        assert bool(((actual.double() - expected).abs() <= unit * DEPTH * bound).all())
    else:
        assert torch.equal(actual, expected)
    for seed in range(1, seeds):
        assert torch.equal(kernels(*given, seed=seed, check=True)[0], actual)


@functools.cache
def layouts() -> dict[tuple[str, str], tuple[Graph, Kernels]]:
    names = [(left, right) for left in LEFT for right in RIGHT]
    graphs = [product(LEFT[left], RIGHT[right]) for left, right in names]
    return dict(zip(names, zip(graphs, build(graphs, check=True), strict=True), strict=True))


@pytest.mark.parametrize("right", RIGHT)
@pytest.mark.parametrize("left", LEFT)
def test_layouts(left: str, right: str) -> None:
    one, kernels = layouts()[left, right]
    given = tensors(one)
    check(kernels, one, given)
    apart = [t.repeat_interleave(2, dim=-1)[..., ::2] for t in given]
    check(kernels, one, apart, seeds=1)


def test_types() -> None:
    kinds = (DType.FLOAT64, DType.INT8, DType.INT32, DType.INT64)
    graphs = [
        product(LEFT["along K"], RIGHT[right], dtype) for dtype in kinds for right in [*RIGHT][:2]
    ]
    for one, kernels in zip(graphs, build(graphs, check=True), strict=True):
        check(kernels, one, tensors(one))


def test_a_depth_that_is_not_even() -> None:
    """K is two dims of the left operand in another order: each element's place is told anew."""
    one = uneven()
    text = cuda_text(planned(one))
    assert "return x[" in text and "return &y[" in text
    (kernels,) = build([one], check=True)
    check(kernels, one, tensors(one))


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.FLOAT64])
def test_a_wide_tile_of_groups(dtype: DType) -> None:
    """Groups of more than 64 columns; in float64 two steps of such a tile are shorter, as they must
    fit into 48 KB."""
    x, w = value("x", ROWS, DEPTH, dtype=dtype), value("w", 200, DEPTH, dtype=dtype)
    one = graph([x, w], group_norm(2)(matmul(x, transposed(w))))
    (step,) = planned(one).steps
    assert isinstance(step, ProductPlan) and step.tile.columns == 128 and step.tile.threads == 256
    assert step.tile.operand_bytes(dtype.itemsize) <= STATIC_SHARED
    assert step.tile.depth == (16 if dtype is DType.FLOAT32 else 8)
    (kernels,) = build([one], check=True)
    given = tensors(one)
    (actual,) = kernels(*given, check=True)
    wide = [t.double() for t in given]
    (expected,) = evaluate(one.roots, dict(zip(one.inputs, wide, strict=True)), {})
    # Of order 1: a sum of K is off by K units of its terms' size, and there are few digits lost.
    assert (
        float((actual.double() - expected).abs().max()) < 16 * DEPTH * torch.finfo(actual.dtype).eps
    )


def test_what_it_asks_of_a_block() -> None:
    assert TILE.threads == 128
    assert TILE.operand_bytes(4) == 2 * 16 * (68 + 68) * 4
    assert TILE.operand_bytes(8) == 2 * 16 * (66 + 66) * 8


def test_the_last_line_stands_in_for_those_that_do_not_exist_and_for_no_other() -> None:
    """A row and a column of NaN and infinities at the end show there alone."""
    one, kernels = layouts()["along K", "along K"]
    x, y = tensors(one)
    x[-1, 3], y[-1, 5] = float("nan"), float("inf")
    (actual,) = kernels(x, y, check=True)
    assert bool(actual[-1].isnan().all()) and bool(actual[:-1, :-1].isfinite().all())
    assert bool(actual[:-1, -1].isinf().all())


FAULTS = {
    "no barrier ahead of the products": ("Left::size);\n        __syncthreads();", "Left::size);"),
    "no barrier behind a step": (
        "            __syncthreads();\n        }\n    }",
        "        }\n    }",
    ),
    "one stage for all steps": ("stage = stage_size - stage;", ""),
    "K has no end": ("depth_left >= Operand::depth", "depth_left != 0"),
    "lines have no end": ("line < all_lines ?", "line < all_lines + 64 ?"),
    "steps of 1": ("+= Operand::depth * stride_", "+= stride_"),
    "the first step for all": ("first_depth_ += Operand::depth", "first_depth_ += 0"),
    "threads with the same rows": ("thread / 2 % 4;", "thread / 4 % 4;"),
    "a step is left out": ("depth_left > 0;", "depth_left > depth;"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right, wrong = FAULTS[fault]
    header = include_files()["fusegen/shared_tile.cuh"]
    assert right in header
    header = header.replace(right, wrong).replace("#pragma once", "")
    for included in ("dtypes", "neighbours"):
        header = header.replace(f'"{included}.cuh"', f'"fusegen/{included}.cuh"')

    def planted(*arguments: Any) -> CudaSource:
        made = cuda_source(*arguments)
        include = '#include "fusegen/shared_tile.cuh"'
        assert include in made.text
        return replace(made, text=made.text.replace(include, header))

    monkeypatch.setattr(emulated, "cuda_source", planted)
    graphs = [product(LEFT["along K"], RIGHT["across K"]), uneven()]
    built = build(graphs, check=True)
    with pytest.raises(AssertionError):
        for one, kernels in zip(graphs, built, strict=True):
            check(kernels, one, tensors(one))
