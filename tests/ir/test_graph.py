"""Graphs: attributes, types and the order of nodes."""

from __future__ import annotations

import pytest

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import (
    Attributes,
    Graph,
    Node,
    Operation,
    Output,
    Placeholder,
    StatisticsUpdate,
    TensorType,
    topological,
)
from fusegen.ir.integers import Integer

VECTOR = TensorType((Integer.symbol("n"), Integer.of(4)), DType.FLOAT16)


def node(name: str, *operands: Node) -> Node:
    """A node of an unknown operation."""
    return Node(Operation(name), operands, Attributes(), VECTOR)


def test_tensor_type() -> None:
    assert str(VECTOR) == "float16[n, 4]"
    assert VECTOR.rank == 2
    assert VECTOR.count == Integer.symbol("n") * 4
    assert TensorType((), DType.BOOL).count.constant == 1


def test_attributes_are_a_hashable_mapping() -> None:
    attributes = Attributes.of(dim=(0, 1), keepdim=True, eps=1e-5, mode="same", stride=2)
    assert list(attributes) == ["dim", "keepdim", "eps", "mode", "stride"]
    assert len(attributes) == 5
    assert attributes == Attributes.of(**attributes)
    assert hash(attributes) == hash(Attributes.of(**attributes))
    assert attributes.integers("dim") == (0, 1)
    assert attributes.integers("stride") == (2,)
    assert attributes.integer("stride") == 2
    assert attributes.flag("keepdim") is True
    assert attributes.number("eps") == 1e-5
    assert attributes.number("stride") == 2.0
    assert attributes.text("mode") == "same"
    with pytest.raises(KeyError):
        attributes["bias"]


def test_sizes_may_be_symbolic() -> None:
    n = Integer.symbol("n")
    attributes = Attributes.of(shape=(n, 3), start=n)
    assert attributes.sizes("shape") == (n, Integer.of(3))
    assert attributes.sizes("start") == (n,)
    assert Attributes.of(dtype=DType.INT64).dtype("dtype") is DType.INT64


def test_nodes_compare_by_identity() -> None:
    x = node("x")
    assert x == x
    assert node("x") != x
    assert x.shape == VECTOR.shape
    assert x.dtype is DType.FLOAT16


def test_topological_order_puts_operands_first_and_each_node_once() -> None:
    x, y = node("x"), node("y")
    total = node("add", x, y)
    root = node("mul", total, x)
    assert topological((root, total)) == (x, y, total, root)


def test_topological_order_of_a_deep_chain_does_not_recurse() -> None:
    deep = node("x")
    for _ in range(5000):
        deep = node("relu", deep)
    assert len(topological((deep,))) == 5001


def test_roots_are_outputs_then_statistics() -> None:
    x = Node(Placeholder("placeholder"), (), Attributes(), VECTOR)
    mean, variance = node("mean", x), node("var", x)
    graph = Graph(
        "g", (x,), (), (Output("y", x),), updates=(StatisticsUpdate("bn", mean, variance),)
    )
    assert graph.roots == (x, mean, variance)
