"""The pass that writes composites out."""

from __future__ import annotations

import torch

from fusegen.errors import Span
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node, Output, StatisticsUpdate, topological
from fusegen.ops.composite.normalizations import GROUP_NORM, batch_statistics
from fusegen.ops.composite.products import LINEAR
from fusegen.ops.composite.softmax import SOFTMAX
from fusegen.ops.composite.views import FLATTEN
from fusegen.ops.construct import call
from fusegen.ops.pointwise.activations import RELU
from fusegen.ops.record import Composite
from fusegen.passes.decompose import decompose
from tests.ops.examples import fixed, placeholder
from tests.reference import evaluate


def graph_of(*roots: Node, inputs: tuple[Node, ...] = ()) -> Graph:
    """A graph with the given outputs."""
    return Graph("g", inputs, (), tuple(Output(f"y{i}", r) for i, r in enumerate(roots)))


def test_a_graph_of_primitives_is_returned_as_it_is() -> None:
    graph = graph_of(call(RELU, (placeholder(fixed((3,), DType.FLOAT32)),)))
    assert decompose(graph) is graph


def test_a_chain_of_composites_is_written_out() -> None:
    x = placeholder(fixed((2, 8), DType.FLOAT64), "x")
    w = placeholder(fixed((6, 8), DType.FLOAT64), "w")
    chain = call(SOFTMAX, (call(GROUP_NORM, (call(LINEAR, (x, w)),), num_groups=2),), dim=1)
    plain = decompose(graph_of(chain, chain))
    nodes = topological(plain.roots)
    assert not any(isinstance(node.operation, Composite) for node in nodes)
    assert plain.outputs[0].node is plain.outputs[1].node
    generator = torch.manual_seed(0)
    values = {
        x: torch.randn(2, 8, dtype=torch.float64, generator=generator),
        w: torch.randn(6, 8, dtype=torch.float64, generator=generator),
    }
    (expected,), (actual, _) = evaluate((chain,), values), evaluate(plain.roots, values)
    torch.testing.assert_close(actual, expected, rtol=1e-13, atol=1e-13)


def test_names_and_places_are_kept() -> None:
    span = Span(3, 5, 3, 9)
    x = placeholder(fixed((2, 8), DType.FLOAT32), "x")
    made = call(SOFTMAX, (x,), dim=1)
    named = Node(made.operation, made.operands, made.attributes, made.type, "weights", span)
    (root,) = decompose(graph_of(named)).roots
    assert (root.name, root.span) == ("weights", span)
    parts = [node for node in topological((root,)) if node not in (root, x)]
    assert parts
    assert all(part.span == span and part.name is None for part in parts)


def test_a_composite_that_does_nothing_is_its_operand() -> None:
    x = placeholder(fixed((6,), DType.FLOAT32), "x")
    assert decompose(graph_of(call(FLATTEN, (x,)))).roots == (x,)


def test_shared_operands_are_written_out_once() -> None:
    x = placeholder(fixed((2, 8), DType.FLOAT32))
    shared = call(SOFTMAX, (x,), dim=1)
    first, second = decompose(graph_of(call(RELU, (shared,)), call(RELU, (shared,)))).roots
    assert first.operands[0] is second.operands[0]


def test_batch_statistics_are_rewritten_too() -> None:
    x = placeholder(fixed((2, 8), DType.FLOAT32))
    made = call(SOFTMAX, (x,), dim=1)
    mean, variance = batch_statistics(made)
    graph = Graph(
        "g", (x,), (), (Output("y", made),), (), (StatisticsUpdate("bn", mean, variance),)
    )
    plain = decompose(graph)
    assert not any(isinstance(node.operation, Composite) for node in topological(plain.roots))
    assert plain.updates[0].mean.type == mean.type
