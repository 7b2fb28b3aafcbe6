"""What a graph demands of sizes that are known only at run time: counts that are given here."""

from __future__ import annotations

import pytest

from fusegen.ir.graph import Graph
from fusegen.passes import pipeline
from fusegen.passes.demands import Demand, batch_counts, extreme_demands, slice_demands
from tests.frontend.programs import elaborated, model


def graph(returned: str, columns: str = "m") -> Graph:
    body = f"input x: [n, {columns}]\nreturn {returned}"
    return pipeline.run(elaborated(model(body, "model M():")).graph)


def at(demands: tuple[Demand, ...], columns: int) -> list[tuple[str, int, bool]]:
    sizes = {"n": 7, "m": columns}
    return [(d.name, d.count.evaluate(sizes), d.is_met(sizes)) for d in demands]


@pytest.mark.parametrize(
    ("taken", "columns", "expected"),
    [
        ("x[:, 0]", 0, [("m", -1, False)]),  # behind the last
        ("x[:, 0]", 1, [("m", 0, True)]),
        ("x[:, -1]", 0, [("m", -1, False)]),  # before the first
        ("x[:, -1]", 3, [("m", 2, True)]),
        ("x[:, :1]", 0, [("m", -1, False)]),
        ("x[:, -1:]", 4, [("m", 3, True)]),
        ("x[:, 1:]", 0, []),  # a size below 0, which is refused in other words
        ("x", 0, []),
    ],
)
def test_elements_taken_by_number(
    taken: str, columns: int, expected: list[tuple[str, int, bool]]
) -> None:
    assert at(slice_demands(graph(f"{taken} * 2")), columns) == expected


@pytest.mark.parametrize(("columns", "is_met"), [(0, False), (1, True)])
def test_an_extreme_of_a_size_of_run_time(columns: int, is_met: bool) -> None:
    demands = extreme_demands(graph("amax(x, dim=1)"))
    assert at(demands, columns) == [("amax", columns, is_met)]


@pytest.mark.parametrize("returned", ["softmax(x, dim=1)", "sum(x, dim=1)", "norm(x, dim=1)"])
def test_what_has_a_result_of_nothing_demands_nothing(returned: str) -> None:
    assert extreme_demands(graph(returned)) == ()


def test_a_fixed_number_to_choose_from_demands_nothing() -> None:
    assert extreme_demands(graph("amin(x, dim=1)", columns="5")) == ()


def test_values_of_each_channel_of_a_batch_norm() -> None:
    text = model("input x: [n, 4, m]\nnorm = BatchNorm1d(4)\nreturn norm(x)", "model M():")
    ((layer, count),) = batch_counts(elaborated(text, training=True).graph)
    assert (layer, count.evaluate({"n": 3, "m": 5})) == ("norm", 15)
    assert batch_counts(elaborated(text).graph) == ()
