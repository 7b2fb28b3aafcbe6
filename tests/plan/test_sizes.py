"""Sizes that are sums have names of their own."""

from __future__ import annotations

from fusegen.ir.integers import Integer
from fusegen.plan.kernels.elementwise import ElementwisePlan
from fusegen.plan.phases import loads_of
from fusegen.plan.sizes import definitions, name_sizes
from tests.emulated import apply, graph, planned, value

HEIGHT, WIDTH = Integer.symbol("height") - 2, Integer.symbol("width") - 2


def test_an_argument_whose_sizes_are_sums_is_read_in_its_order() -> None:
    """Its element's position is the index itself, not a sum over four products of sizes."""
    x = value("x", "n", HEIGHT, WIDTH)
    plan = planned(graph([x], apply("relu", apply("reshape", x, shape=(-1,)))))
    (step,) = plan.steps
    assert isinstance(step, ElementwisePlan)
    (load,) = loads_of(tuple(store.value for store in step.stores))
    assert load.offset == step.index


def test_arguments_and_results_share_the_names() -> None:
    x, y = value("x", "n", HEIGHT), value("y", "n", "height")
    named = name_sizes(graph([x, y], apply("exp", x), y))
    symbols = definitions((*named.inputs[0].shape, *named.outputs[0].node.shape))
    assert [symbol.name for symbol in symbols] == ["height_minus_2"]
    assert named.inputs[1] is y
