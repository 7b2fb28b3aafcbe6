"""Random graphs of every kind of operation, for properties that hold for all of them."""

from __future__ import annotations

from hypothesis import strategies as st

from fusegen.ir.graph import Graph, Node
from fusegen.ir.integers import Integer
from tests.emulated import apply, graph, value

ROWS, COLUMNS = "n", 12
SHAPE = (Integer.symbol(ROWS), Integer.of(COLUMNS))


@st.composite
def random_graphs(draw: st.DrawFn) -> Graph:
    """Up to ten operations over tensors of shape (n, 12), all of values near 1, and one to three
    results, some of which others are made from."""
    x, y = value("x", ROWS, COLUMNS), value("y", ROWS, COLUMNS)
    vector, square = value("vector", COLUMNS), value("square", COLUMNS, COLUMNS)
    made: list[Node] = [x, y]
    for _ in range(draw(st.integers(1, 10))):
        first, second = draw(st.sampled_from(made[-4:])), draw(st.sampled_from(made))
        made.append(draw(_operation(first, second, vector, square)))
    count = draw(st.integers(1, min(3, len(made) - 2)))
    results = {made[-1]: None, **dict.fromkeys(draw(st.permutations(made[2:]))[:count])}
    others = [_narrowed(draw, result) for result in results]
    return graph([x, y, vector, square], *others)


def _narrowed(draw: st.DrawFn, result: Node) -> Node:
    """The result itself, or something small made from it."""
    kind = draw(st.sampled_from(["all", "all", "rows", "columns", "transposed"]))
    if kind == "rows":
        return apply("logsumexp", result, dim=1)
    if kind == "columns":
        return apply("amax", result, dim=0)
    return apply("transpose", result, dim0=0, dim1=1) if kind == "transposed" else result


@st.composite
def _operation(draw: st.DrawFn, x: Node, y: Node, vector: Node, square: Node) -> Node:
    kind = draw(st.sampled_from(sorted(OPERATIONS)))
    return OPERATIONS[kind](x, y, vector, square)


OPERATIONS = {
    "tanh": lambda x, y, v, w: apply("tanh", x),
    "mean of two": lambda x, y, v, w: apply("mul", apply("add", x, y), 0.5),
    "vector": lambda x, y, v, w: apply("mul", x, v),
    "greater": lambda x, y, v, w: apply("maximum", x, y),
    "softmax": lambda x, y, v, w: apply("softmax", x, dim=1),
    "softmax of columns": lambda x, y, v, w: apply("softmax", x, dim=0),
    "norm": lambda x, y, v, w: apply("layer_norm", x, v, normalized_shape=(COLUMNS,), eps=0.1),
    "groups": lambda x, y, v, w: apply("group_norm", x, num_groups=3, eps=0.1),
    "less the mean": lambda x, y, v, w: apply("sub", x, apply("mean", y, dim=1, keepdim=True)),
    "times the sum": lambda x, y, v, w: apply("mul", x, apply("amax", y, dim=0, keepdim=True)),
    "linear": lambda x, y, v, w: apply("linear", apply("tanh", x), w),
    "joined": lambda x, y, v, w: apply(
        "cat",
        apply("narrow", x, dim=1, start=2, length=5),
        apply("narrow", y, dim=1, start=0, length=7),
        dim=1,
    ),
    "reshaped": lambda x, y, v, w: apply(
        "reshape", apply("exp", apply("neg", apply("abs", x))), shape=SHAPE
    ),
    "turned": lambda x, y, v, w: apply(
        "reshape",
        apply("permute", apply("reshape", x, shape=(SHAPE[0], 3, 4)), dims=(0, 2, 1)),
        shape=SHAPE,
    ),
}
