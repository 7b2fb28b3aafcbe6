"""Graphs printed as programs: elaborating the text gives the same graph again."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from fusegen.frontend import Source, elaborate, parse
from fusegen.frontend.printing import source_text
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Attributes, AttributeValue, Graph, topological
from fusegen.ir.integers import Integer
from fusegen.passes.decompose import decompose
from fusegen.testing.programs import model_sources

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").rglob("*.fuse"))


def graph_of(text: str, dtype: DType = DType.FLOAT32) -> Graph:
    return elaborate(parse(Source("test.fuse", text)), dtype=dtype).graph


def plain(value: AttributeValue) -> object:
    """An attribute such that equal ones are equal, NaN and known sizes among them."""
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, Integer):
        return value if value.constant is None else repr(value.constant)
    return repr(value)


def attributes(given: Attributes) -> list[object]:
    return [[name, plain(value)] for name, value in given.items()]


def described(graph: Graph) -> list[object]:
    """All of a graph but the names of values within it: equal if and only if the graphs are."""
    numbers = {node: i for i, node in enumerate((*graph.inputs, *graph.tensors))}
    lines: list[object] = [graph.name, graph.description, attributes(graph.arguments)]
    lines += [[node.name, node.operation, node.type] for node in numbers]
    lines += [[layer.path, layer.kind, attributes(layer.arguments)] for layer in graph.layers]
    for node in topological(graph.roots):
        if node in numbers:
            continue
        numbers[node] = len(numbers)
        operands = [numbers[operand] for operand in node.operands]
        lines.append([node.operation, operands, attributes(node.attributes), node.type])
    return [*lines, [[output.name, numbers[output.node]] for output in graph.outputs]]


def check_round_trip(text: str, dtype: DType = DType.FLOAT32) -> str:
    graph = graph_of(text, dtype)
    printed = source_text(graph, dtype)
    again = graph_of(printed, dtype)
    assert described(again) == described(graph), printed
    assert source_text(again, dtype) == printed
    return printed


@settings(max_examples=100)
@given(model_sources())
def test_random_models(text: str) -> None:
    check_round_trip(text)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16])
def test_examples(path: Path, dtype: DType) -> None:
    check_round_trip(path.read_text(encoding="utf-8"), dtype)


BODIES = {
    "numbers": "return x + 2 - -1.5 ** x, x * inf, where(x > nan, x, -0.0), x % 1e-30, x == True",
    "sizes": "return x / n, reshape(x, [n * h, 8]), sum(x) / (2 * n + h // 3), mul(n, h) * x",
    "subscripts": "return x[:, 0], x[None, ..., 2:7:3], x[n - 1, :, None], x[..., 1:1], x[..., -1]",
    "several": "a, b = chunk(x, 2, dim=2)\n    c, _ = split(a, [1, 3], 2)\n    return b, c",
    "a value twice": "y = x * x\n    z = y\n    return z, y, y, x",
    "the input": "return x",
    "texts and lists": "return gelu(x, approximate='tanh'), cat([x, to(x, int64)], dim=0)",
    "layers": "a = Linear(8, 3, bias=False)\n    b = Parameter([3], init=0.5)\n    return a(x) + b",
    "a norm": "bn = BatchNorm1d(4)\n    c = reshape(x, [-1, 4])\n    return bn(c), bn.weight",
    "nothing in brackets": "return (x |> sum()) ** 2, where(True, x, 1)",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_bodies(body: str) -> None:
    check_round_trip(f"model M():\n    input x: [n, h, 8]\n    {body}\n")


def test_models_in_models() -> None:
    printed = check_round_trip(
        "# Two levels,\n# and a line.\n"
        "model Outer(width=8, slope=0.1):\n    input x: [n, width]\n    input y: int64[n, 1]\n"
        "    one = Inner(width)\n    last = Linear(width, 3)\n    two = Inner(width)\n"
        "    return leaky_relu(last(two(one(x))), slope) * y\n"
        "model Inner(w):\n    input t: [m, w]\n    x = Linear(w, w)\n    deep = Deep(w)\n"
        "    return deep(x(t))\n"
        "model Deep(w):\n    input t: [m, w]\n    scale = Buffer([w], init='ones')\n"
        "    return t * scale\n"
    )
    assert "# Two levels,\n# and a line.\nmodel Outer(width=8, slope=0.1):" in printed
    assert "input y: int64[n, 1]" in printed


def test_names_of_operations_that_mean_something_else() -> None:
    printed = check_round_trip(
        "model M(sum=1):\n    input exp: [mean, 8]\n    gelu = GELU(approximate='tanh')\n"
        "    return f(gelu(exp)) + g(exp) / sum, g(exp)\n"
        "fn f(t) = gelu(exp(t)) + sum(t, dim=1, keepdim=True)\n"
        "fn g(t) = sum(t, dim=1, keepdim=True)\n"
    )
    assert printed.count("fn operation_") == 4


def test_names_are_kept() -> None:
    text = "model M():\n    input x: [n]\n    a = exp(x)\n    b = a * 2.0\n    return b\n"
    assert source_text(graph_of(text)) == text


def test_what_the_compiler_makes_of_a_model_has_no_text() -> None:
    graph = graph_of("model M():\n    input x: [n, 8]\n    return softmax(x, dim=1)\n")
    with pytest.raises(ValueError, match="has no text"):
        source_text(decompose(graph))
