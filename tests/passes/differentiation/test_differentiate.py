"""The two graphs of a model in training, and how their tensors belong together."""

from __future__ import annotations

import pytest

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node, Output, Role, StatisticsUpdate, topological
from fusegen.ops.composite.normalizations import batch_statistics
from fusegen.ops.pointwise.casting import AS_STORED
from fusegen.passes.differentiation import Differentiated, Origin, Source, differentiate
from tests.emulated import apply, graph, value


def differentiated(model: Graph) -> Differentiated:
    found = differentiate(model)
    assert found is not None
    return found


def sources(found: Differentiated) -> list[tuple[Origin, int]]:
    return [(source.origin, source.index) for source in found.sources]


def saved_names(found: Differentiated) -> list[str]:
    return [value.name for value in found.forward.saved]


def test_a_product_needs_its_operands_only() -> None:
    x, weight = value("x", "n", 8), value("w", 6, 8)
    found = differentiated(graph([x, weight], apply("linear", x, weight)))
    assert found.forward.saved == ()
    assert sources(found) == [
        (Origin.OUTPUT_GRADIENT, 0),
        (Origin.ARGUMENT, 0),
        (Origin.ARGUMENT, 1),
    ]
    assert [node.name for node in found.backward.inputs] == ["gradient_of_y", "x", "w"]
    assert [output.name for output in found.backward.outputs] == ["gradient_of_x", "gradient_of_w"]
    assert found.targets == (0, 1)
    assert [o.node.type for o in found.backward.outputs] == [x.type, weight.type]


def test_elementwise_operations_are_computed_again() -> None:
    x, bias = value("x", "n", 8), value("b", 8)
    chain = apply("gelu", apply("silu", apply("add", x, bias)))
    found = differentiated(graph([x, bias], chain))
    assert found.forward.saved == ()


def test_an_output_is_read_instead_of_computed_again() -> None:
    x = value("x", "n", 8)
    found = differentiated(graph([x], apply("softmax", x, dim=1)))
    assert found.forward.saved == ()
    assert sources(found) == [(Origin.OUTPUT_GRADIENT, 0), (Origin.OUTPUT, 0)]


def test_an_output_is_found_through_its_reshape() -> None:
    x, w = value("x", 2, 3, 8), value("w", 6, 8)
    found = differentiated(graph([x, w], apply("linear", apply("sigmoid", x), w), apply("exp", x)))
    origins = {origin for origin, _ in sources(found)}
    assert origins <= set(Origin)
    hidden = apply("linear", x, w)
    found = differentiated(graph([x, w], hidden, apply("sum", apply("square", hidden))))
    assert found.forward.saved == ()
    assert (Origin.OUTPUT, 0) in sources(found)
    assert all(
        root.type == output.node.type
        for root, output in zip(found.forward.roots, found.forward.outputs, strict=True)
    )


def test_statistics_of_rows_are_saved() -> None:
    x, weight = value("x", "n", 4096), value("w", 4096)
    root = apply("layer_norm", x, weight, normalized_shape=(4096,))
    found = differentiated(graph([x, weight], root))
    elements = [v.node.type.count.evaluate({"n": 1}) for v in found.forward.saved]
    assert elements and max(elements) == 1


def test_what_a_product_reads_is_saved_rather_than_written_again() -> None:
    x, w, v = value("x", "n", 64), value("w", 64, 64), value("v", 64, 64)
    hidden = apply("linear", x, w)
    found = differentiated(graph([x, w, v], apply("linear", apply("relu", hidden), v)))
    assert saved_names(found) == ["relu"]  # the slope of relu is in its result too
    found = differentiated(graph([x, w, v], apply("linear", apply("gelu", hidden), v)))
    assert saved_names(found) == ["linear", "gelu"]


@pytest.mark.parametrize("name", ["amax", "amin"])
def test_what_an_extreme_is_compared_with_is_saved(name: str) -> None:
    """Computed again, it might round otherwise, and none would be the extreme."""
    x, y = value("x", "n", 64), value("y", "n", 64)
    product = apply("mul", x, y)
    found = differentiated(graph([x, y], apply(name, product, dim=1)))
    assert saved_names(found) == ["mul"]
    assert sources(found)[-2:] == [(Origin.OUTPUT, 0), (Origin.SAVED, 0)]
    compared = [
        node.operands[0].name
        for output in found.backward.outputs
        for node in _below(output.node)
        if node.operation is AS_STORED
    ]
    assert set(compared) == {"y", "mul"}


def _below(root: Node) -> list[Node]:
    return list(topological((root,)))


def test_roots_are_outputs_then_statistics_then_saved_values() -> None:
    x, w = value("x", 16, 8), value("w", 8, 8)
    hidden = apply("linear", x, w)
    mean, variance = batch_statistics(hidden)
    model = Graph(
        "model",
        (x, w),
        (),
        (Output("y", apply("batch_norm", hidden, training=True)),),
        updates=(StatisticsUpdate("norm", mean, variance),),
    )
    found = differentiated(model)
    roots = found.forward.roots
    assert [root.type for root in roots[:3]] == [root.type for root in model.roots]
    assert roots[3:] == tuple(value.node for value in found.forward.saved) != ()


def test_buffers_integers_and_unused_arguments_have_no_gradient() -> None:
    x = value("x", 8)
    buffer = value("b", 8, role=Role.BUFFER)
    mask, unused = value("m", 8, dtype=DType.INT64), value("u", 8)
    root = apply("mul", apply("mul", x, buffer), apply("gt", mask, 0))
    assert differentiated(graph([x, buffer, mask, unused], root)).targets == (0,)


def test_no_gradient_flows_through_positions() -> None:
    x = value("x", 8, 8)
    assert differentiate(graph([x], apply("argmax", x, dim=1))) is None


def test_the_gradient_of_rounding_is_0() -> None:
    x, y = value("x", 8), value("y", 8)
    found = differentiated(graph([x, y], apply("add", apply("floor", x), y)))
    assert found.targets == (0, 1)
    assert found.sources == (Source(Origin.OUTPUT_GRADIENT, 0),)


def test_sizes_are_read_off_an_argument_where_no_gradient_has_them() -> None:
    x = value("x", "n", "m")
    found = differentiated(graph([x], apply("sum", x, dim=1)))
    assert sources(found) == [(Origin.OUTPUT_GRADIENT, 0), (Origin.ARGUMENT, 0)]


def test_outputs_that_are_no_numbers_have_no_gradient() -> None:
    x = value("x", 8)
    found = differentiated(graph([x], apply("gt", x, 0), apply("exp", x)))
    assert [origin for origin, _ in sources(found)] == [Origin.OUTPUT_GRADIENT, Origin.OUTPUT]
    assert found.sources[0].index == 1


def test_the_readers_of_plans_see_which_operation_a_gradient_is_of() -> None:
    x, w = value("x", "n", 8), value("w", 6, 8)
    found = differentiated(graph([x, w], apply("gelu", apply("linear", x, w))))
    written = {node.written_as for o in found.backward.outputs for node in _below(o.node)}
    assert {"gelu gradient", "linear gradient"} <= written
