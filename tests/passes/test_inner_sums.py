"""Sums over images and channels begin with the pixels of each channel."""

from __future__ import annotations

import torch

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node, topological
from fusegen.ops.record import Reduction
from fusegen.passes import pipeline
from fusegen.passes.inner_sums import sum_inner_dims_first
from fusegen.plan.arranging import arranged
from fusegen.plan.kernels.rows import RowPlan
from fusegen.plan.module import plan_module
from fusegen.plan.phases import loads_of
from tests.emulated import apply, graph, run, value

X = value("x", "images", 6, "height", "width")


def sums(model: Graph) -> list[tuple[int, ...]]:
    return [
        node.attributes.integers("dims")
        for node in topological(model.roots)
        if isinstance(node.operation, Reduction)
    ]


def inner_first(model: Graph) -> Graph:
    return sum_inner_dims_first(model, lambda columns, piece: False)


def planned_as(model: Graph) -> Graph:
    return arranged(pipeline.run(model))


def both_ways(x: Node) -> Graph:
    return graph(
        [x], apply("sum", x, dim=(1, 2, 3)), apply("sum", apply("mul", x, x), dim=(0, 2, 3))
    )


def test_sums_along_different_dims_share_the_last() -> None:
    found = inner_first(pipeline.run(both_ways(X)))
    assert sorted(sums(found)) == [(0, 2, 3), (1, 2, 3), (2, 3), (2, 3)]
    assert inner_first(found) is found


def test_one_kernel_reads_what_both_sum() -> None:
    steps = plan_module(pipeline.run(both_ways(X)), DType.FLOAT32).steps
    programs = [step.program for step in steps if isinstance(step, RowPlan)]
    read = [{load.buffer.name for load in loads_of(program.values)} for program in programs]
    assert sum("x" in names for names in read) == 1


def test_a_row_that_a_kernel_keeps_is_summed_at_once() -> None:
    """What else runs over it takes pieces of it, but only where these are those of whole warps."""
    for channels, height, is_whole in (
        (4, 32, True),
        (6, 32, False),
        (4, 16, False),
        (64, 64, False),
    ):
        found = sorted(sums(planned_as(both_ways(value("x", "images", channels, height, height)))))
        split = [] if is_whole else [(2, 3)]
        assert found == [(0, 2, 3), (1, 2, 3), (2, 3), *split]


def test_the_caller_decides_which_rows_stay_whole() -> None:
    """By the sizes of rows that are neighbours in memory; of other sums it is not asked."""
    asked = []

    def decide(columns: int, piece: int) -> bool:
        asked.append((columns, piece))
        return columns == 6 * 35

    for height, whole in ((5, True), (6, False)):
        model = pipeline.run(both_ways(value("x", "images", 6, height, 7)))
        found = sorted(sums(sum_inner_dims_first(model, decide)))
        assert found == [(0, 2, 3), (1, 2, 3), (2, 3), *([] if whole else [(2, 3)])]
    assert set(asked) == {(6 * 35, 35), (6 * 42, 42)}
    assert sums(sum_inner_dims_first(pipeline.run(both_ways(X)), decide)).count((2, 3)) == 2
    assert len(set(asked)) == 2  # sizes that are open are not kept


def test_other_sums_stay() -> None:
    same = graph(
        [X], apply("sum", X, dim=(0, 2, 3)), apply("sum", apply("mul", X, X), dim=(0, 2, 3))
    )
    rows = graph([X], apply("sum", X, dim=(1, 2, 3)), apply("sum", X, dim=(0, 1)))
    small = both_ways(value("x", "images", 6, 4, 4))
    for model in (same, rows, small):
        decomposed = pipeline.run(model)
        assert inner_first(decomposed) is decomposed
        assert len(sums(decomposed)) == 2


def test_values() -> None:
    x = torch.randn(3, 6, 5, 8, generator=torch.Generator().manual_seed(2))
    over_channels, over_images = run(both_ways(X), [x], seed=1, check=True)
    exact = x.double()
    for found, truth in (
        (over_channels, exact.sum((1, 2, 3))),
        (over_images, exact.square().sum((0, 2, 3))),
    ):
        # 240 terms in float32, each rounded once and added in at most 240 steps.
        bound = 240 * torch.finfo(torch.float32).eps * exact.abs().max() ** 2
        assert bool(((found.double() - truth).abs() <= bound).all())
