"""Which kernels write where they read, and that their results are right then."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fusegen.ir.graph import Graph, Node
from fusegen.plan.cost import SizeHints
from fusegen.plan.kernels.base import InPlace
from fusegen.plan.kernels.module import ModulePlan, in_place_of
from fusegen.plan.lifetimes import peak
from tests.emulated import Size, apply, graph, link, planned, value

DEPTH = 16


def in_place(plan: ModulePlan) -> list[InPlace]:
    found = map(in_place_of, plan.steps)
    return [same for same in found if same is not None]


def between_products(
    rows: Size,
    columns: Size,
    middle: Callable[[Node], Node],
    last: Callable[[Node, Node], Node] = lambda first, second: second,
) -> Graph:
    """Two products with what `middle` makes of the first one between them, and what `last` makes of
    both."""
    x, w, v = value("x", rows, DEPTH), value("w", DEPTH, columns), value("v", columns, DEPTH)
    first = apply("matmul", x, w)
    return graph([x, w, v], last(first, apply("matmul", middle(first), v)))


def softmax(x: Node) -> Node:
    return apply("softmax", x, dim=1)


def transposed(x: Node) -> Node:
    return apply("transpose", x, dim0=0, dim1=1)


def folded(x: Node) -> Node:
    """A sum of elements that lie apart: what one thread writes another one reads."""
    return apply("mul", apply("add", x, transposed(x)), 0.5)


# A row in a part of a warp, in two warps, in a block, and in a cluster or in a loop.
@pytest.mark.parametrize(("rows", "columns"), [(37, 50), (9, 1000), (5, 1602), (3, 9000)])
def test_rows_between_two_products_stay_where_they_are(rows: int, columns: int) -> None:
    plan = planned(between_products("n", "m", softmax))
    (same,) = in_place(plan)
    assert [same.written.name] == [b.name for b in plan.steps[1].written]
    (kernels,) = link([plan], check=True)
    tensors = [torch.randn(s) for s in ((rows, DEPTH), (DEPTH, columns), (columns, DEPTH))]
    (actual,) = kernels(*tensors, check=True)
    x, w, v = (tensor.double() for tensor in tensors)
    weights = torch.softmax(x @ w, 1)
    # A weight is off by as much as its exponent and the greatest, each a sum of DEPTH products
    # that round to 2^-24 of their magnitudes; the sums of powers and of products by as much again.
    magnitudes = (x.abs() @ w.abs()).max()
    bound = 2 * (2 * DEPTH * magnitudes) * 2**-24 * (weights @ v.abs())
    assert ((actual.double() - weights @ v).abs() <= bound).all()


def test_rows_that_fill_their_blocks_stay_where_they_are() -> None:
    assert len(in_place(planned(between_products(64, 512, softmax)))) == 1


@pytest.mark.parametrize(
    "apart",
    [
        between_products(48, 48, folded),
        # Threads beyond the last row of a block's read it beside those that write it.
        between_products("n", 512, softmax),
        between_products("n", "m", softmax, lambda p, y: apply("matmul", transposed(p), y)),
    ],
    ids=["elements apart", "rows read twice", "needed later"],
)
def test_what_must_have_memory_of_its_own(apart: Graph) -> None:
    plan = planned(apart)
    read = {same.read for same in in_place(plan)}
    assert not read


def test_a_result_has_memory_of_its_own() -> None:
    x, w = value("x", "n", DEPTH), value("w", DEPTH, "m")
    assert not in_place(planned(graph([x, w], softmax(apply("matmul", x, w)))))


def test_the_peak_counts_the_memory_once() -> None:
    size = 1024
    plan = planned(between_products(size, size, softmax))
    matrix = size * size * 4
    assert sum(b.type.count.evaluate({}) * 4 >= matrix for b in plan.workspaces) >= 2
    assert peak(plan.steps, SizeHints()).bytes < 2 * matrix
