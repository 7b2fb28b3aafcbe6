"""The cheapest cut."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from fusegen.passes.differentiation.cut import cheapest_cut


def test_the_cheaper_of_two_nodes_in_a_line() -> None:
    costs = {"a": 3, "b": 2, "c": 4}
    edges = [("a", "b"), ("b", "c")]
    assert cheapest_cut(costs, edges, {"a": None}, ["c"]) == {"b"}


def test_of_equals_the_one_nearest_to_the_sink() -> None:
    costs = {"a": 2, "b": 2, "c": 2}
    edges = [("a", "b"), ("b", "c")]
    assert cheapest_cut(costs, edges, {"a": None}, ["c"]) == {"c"}


def test_what_cannot_be_cut_is_gone_around() -> None:
    costs = {"a": 5, "b": None, "c": 9}
    assert cheapest_cut(costs, [("a", "b"), ("b", "c")], {"a": None}, ["b", "c"]) == {"a"}


def test_a_source_may_be_cut_off_instead() -> None:
    """Then the nodes behind it need not be cut."""
    costs = {"a": 5, "b": 5}
    assert cheapest_cut(costs, [("a", "b")], {"a": None, "b": 3}, ["b"]) == {"b"}
    assert cheapest_cut(costs, [("a", "b")], {"b": 3}, ["b"]) == frozenset()


@st.composite
def networks(draw: st.DrawFn) -> tuple[dict[int, int], list[tuple[int, int]], int]:
    """Nodes in order with costs, edges forward, and how many of the first are sources."""
    count = draw(st.integers(2, 6))
    costs = {i: draw(st.integers(1, 5)) for i in range(count)}
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    edges = [pair for pair in pairs if draw(st.booleans())]
    return costs, edges, draw(st.integers(1, count - 1))


@given(networks())
def test_no_cheaper_cut_exists(network: tuple[dict[int, int], list[tuple[int, int]], int]) -> None:
    costs, edges, sources = network
    last = len(costs) - 1

    def separates(cut: frozenset[int]) -> bool:
        reached = {node for node in range(sources) if node not in cut}
        for first, second in edges:  # in order of the first, so once is enough
            if first in reached and second not in cut:
                reached.add(second)
        return last not in reached

    found = cheapest_cut(costs, edges, dict.fromkeys(range(sources)), [last])
    assert separates(found)
    least = min(
        sum(costs[node] for node in chosen)
        for size in range(len(costs) + 1)
        for chosen in combinations(costs, size)
        if separates(frozenset(chosen))
    )
    assert sum(costs[node] for node in found) == least
