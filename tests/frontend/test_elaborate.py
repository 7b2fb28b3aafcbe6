"""What programs mean: the graphs they become."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from fusegen.errors import FusegenError
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node, Placeholder, Role, topological
from fusegen.ops.record import CONSTANT, SIZE_VALUE
from fusegen.runtime.request import Target
from tests.frontend.programs import elaborated, model
from tests.modules import load


def graph_of(body: str, header: str = "model M(n=8):", after: str = "", **options: object) -> Graph:
    return elaborated(model(body, header, after), **options).graph


def state(graph: Graph) -> dict[str, str]:
    """The type of each parameter and buffer by its path."""
    found = {}
    for node in graph.tensors:
        assert isinstance(node.operation, Placeholder)
        found[node.operation.path] = str(node.type)
    return found


def text(node: Node) -> str:
    """The expression a node stands for, as nested calls."""
    if isinstance(node.operation, Placeholder):
        return node.name or ""
    if node.operation is CONSTANT:
        return f"{node.attributes['value']:g}"
    if node.operation is SIZE_VALUE:
        return f"size({node.attributes['size']})"
    return f"{node.operation.name}({', '.join(text(operand) for operand in node.operands)})"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("x |> relu", "relu(x)"),
        ("x |> (relu)", "relu(x)"),
        ("x |> mul(2)", "mul(x, 2)"),
        ("x |> relu |> leaky_relu(0.1)", "leaky_relu(relu(x))"),
        ("x + 1 |> relu", "relu(add(x, 1))"),
        ("x |> ReLU() |> Hardtanh(min_val=0)", "hardtanh(relu(x))"),
        ("x + x * x", "add(x, mul(x, x))"),
        ("(x + x) * x", "mul(add(x, x), x)"),
        ("x - x - x", "sub(sub(x, x), x)"),
        ("-x ** 2", "neg(pow(x, 2))"),
        ("x ** -2", "pow(x, -2)"),
        ("2 ** 3 ** 2 * x", "mul(512, x)"),
        ("x / b", "div(x, size(b))"),
        ("x // 2 % 3", "remainder(floor_divide(x, 2), 3)"),
        ("x > 0", "gt(x, 0)"),
        ("not x < 1", "logical_not(lt(x, 1))"),
        ("x > 0 and x < 1 or x == 2", "logical_or(logical_and(gt(x, 0), lt(x, 1)), eq(x, 2))"),
        ("(x > 0) & (x < 1)", "bitwise_and(gt(x, 0), lt(x, 1))"),
        ("where(x > 0, x, 0.5)", "where(gt(x, 0), x, 0.5)"),
        ("x * 1e-3 + inf", "add(mul(x, 0.001), inf)"),
        ("maximum(x, -inf)", "maximum(x, -inf)"),
        ("x * (n // 3) - n % 3", "sub(mul(x, 2), 2)"),
        ("x / sqrt(n * 2)", "div(x, 4)"),
        ("x * half(n)", "mul(x, 4)"),
        ("x * half(t=n, by=4)", "mul(x, 2)"),
        ("chunk(x, 2, dim=1)[1] |> relu", "relu(slice(x))"),
        ("cat([x, x,], 1)", "cat(x, x)"),
    ],
)
def test_expression(expression: str, expected: str) -> None:
    graph = graph_of(f"input x: [b, n]\nreturn {expression}", after="fn half(t, by=2) = t // by")
    assert text(graph.outputs[0].node) == expected


@pytest.mark.parametrize(
    ("expression", "shape"),
    [
        ("x[:, 0:4]", "[b, 4]"),
        ("x[..., ::2]", "[b, 4]"),
        ("x[:, -1]", "[b]"),
        ("x[:, None, 1:-1]", "[b, 1, 6]"),
        ("reshape(x, [b, 2, -1])", "[b, 2, 4]"),
        ("reshape(x, [b * n])", "[8 * b]"),
        ("expand(x[:, None], [b, n // 2, n])", "[b, 4, 8]"),
        ("permute(x, (1, 0))", "[8, b]"),
        ("sum(x, dim=(0, 1))", "[]"),
        ("mean(x, -1, keepdim=True)", "[b, 1]"),
        ("x @ transpose(x, 0, 1)", "[b, b]"),
    ],
)
def test_shape(expression: str, shape: str) -> None:
    graph = graph_of(f"input x: [b, n]\nreturn {expression}")
    assert str(graph.outputs[0].node.type) == f"float32{shape}"


def test_a_pipe_may_start_a_line_and_have_comments() -> None:
    graph = graph_of(
        """
        input x: [b, n]
        y = x  # the input

            # halved
            |> mul(0.5)
          |> relu
        return y
        """
    )
    assert text(graph.outputs[0].node) == "relu(mul(x, 0.5))"


def test_several_inputs_share_sizes_by_name() -> None:
    graph = graph_of("input x: [b, n]\ninput y: int64[b, 3]\ninput s: []\nreturn x, y, x + s, y")
    assert [str(node.type) for node in graph.inputs] == [
        "float32[b, 8]",
        "int64[b, 3]",
        "float32[]",
    ]
    assert [node.name for node in graph.inputs] == ["x", "y", "s"]
    assert [output.name for output in graph.outputs] == ["x", "y", "output_2", "y_3"]


def test_a_value_used_twice_is_one_node() -> None:
    graph = graph_of("input x: [b, n]\ny = exp(x)\nz = y\nreturn y + z")
    add = graph.outputs[0].node
    assert add.operands[0] is add.operands[1]
    assert add.operands[0].name == "y"


def test_names_and_places_are_on_the_nodes() -> None:
    graph = graph_of(
        "input x: [b, n]\nfc = Linear(n, 2)\ny = x |> fc |> relu\nreturn f(y)",
        after="fn f(t) = t * 2",
    )
    nodes = {node.operation.name: node for node in topological(graph.roots)}
    assert nodes["linear"].name == "fc" and nodes["relu"].name == "y"
    assert nodes["linear"].span is not None and nodes["linear"].span.column == 14
    assert nodes["relu"].span is not None and nodes["relu"].span.line == 4
    assert nodes["mul"].span is not None and nodes["mul"].span.line == 6
    assert all(node.span is not None for node in topological(graph.roots))


def test_the_comment_above_a_model_describes_it() -> None:
    program = (
        "# not this\n\n# One line,\n#   and another.\nmodel M:\n    input x: [b]\n    return x\n"
    )
    graph = elaborated(program).graph
    assert graph.description == "One line,\nand another."
    assert graph.name == "M"


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16, DType.FLOAT64])
def test_unpinned_tensors_have_the_dtype_asked_for(dtype: DType) -> None:
    graph = graph_of(
        "input x: [b, n]\ninput p: float32[b, n]\nbn = BatchNorm1d(n)\nreturn bn(x), p", dtype=dtype
    )
    assert [node.dtype for node in graph.inputs] == [dtype, DType.FLOAT32]
    assert state(graph) == {
        "bn.weight": f"{dtype.value}[8]",
        "bn.bias": f"{dtype.value}[8]",
        "bn.running_mean": f"{dtype.value}[8]",
        "bn.running_var": f"{dtype.value}[8]",
        "bn.num_batches_tracked": "int64[]",
    }


def test_a_layer_used_twice_shares_its_weights() -> None:
    graph = graph_of("input x: [b, n]\nfc = Linear(n, n)\nreturn x |> fc |> fc, fc.weight")
    second = graph.outputs[0].node
    (first, weight, _) = second.operands
    assert first.operands[1] is weight is graph.outputs[1].node is graph.tensors[0]


def test_batch_norm_in_training_updates_its_statistics() -> None:
    body = """
        input x: [b, n]
        bn = BatchNorm1d(n)
        fixed = BatchNorm1d(n, track_running_stats=False)
        return x |> bn |> fixed
        """
    assert graph_of(body).updates == ()
    graph = graph_of(body, training=True)
    assert [update.path for update in graph.updates] == ["bn"]
    assert str(graph.updates[0].mean.type) == str(graph.updates[0].variance.type) == "float32[8]"
    assert "bn.running_mean" in state(graph)


BLOCK = """
model Block(dim, hidden=2 * dim):
    input x: [b, dim]
    fc1 = Linear(dim, hidden)
    scale = Parameter([dim], init="ones")
    fc2 = Linear(hidden, dim)
    return x + (x |> fc1 |> relu |> fc2) * scale
"""


def test_models_inside_models_have_the_paths_of_nested_modules() -> None:
    class Block(nn.Module):
        def __init__(self, dim: int) -> None:
            super().__init__()
            self.fc1 = nn.Linear(dim, 2 * dim)
            self.scale = nn.Parameter(nn.init.ones_(nn.Linear(1, dim).bias.detach()))
            self.fc2 = nn.Linear(2 * dim, dim)

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.unused = Block(4)
            self.first = Block(8)
            self.register_buffer("shift", self.first.scale.detach().clone())
            self.gain = nn.Parameter(self.first.scale.detach().clone())
            self.norm = nn.BatchNorm1d(8)

    graph = graph_of(
        """
        input x: [b, n]
        unused = Block(4)
        first = Block(n)
        shift = Buffer([n])
        gain = Parameter([n])
        norm = BatchNorm1d(n)
        return (x |> first |> norm |> first) * gain + shift + first.fc2.bias
        """,
        after=BLOCK,
    )
    plain = {
        key: f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
        for key, tensor in Whole().state_dict().items()
    }
    assert list(state(graph).items()) == list(plain.items())
    assert [layer.path for layer in graph.layers] == [
        *("unused.fc1", "unused.scale", "unused.fc2"),
        *("first.fc1", "first.scale", "first.fc2"),
        *("shift", "gain", "norm"),
    ]


def test_bare_tensors_say_how_they_start() -> None:
    graph = graph_of(
        """
        input x: [b, n]
        normal = Parameter([n])
        halves = Parameter(n, init=0.5, dtype=float16)
        zeros = Buffer([n])
        table = Buffer([n, 2], init="ones", dtype=int64)
        return x * normal + halves * zeros + table[:, 0]
        """
    )
    starts = {layer.path: (layer.kind, dict(layer.arguments)) for layer in graph.layers}
    assert starts == {
        "normal": ("Parameter", {"shape": (8,), "init": "normal", "dtype": None}),
        "halves": ("Parameter", {"shape": (8,), "init": 0.5, "dtype": DType.FLOAT16}),
        "zeros": ("Buffer", {"shape": (8,), "init": "zeros", "dtype": None}),
        "table": ("Buffer", {"shape": (8, 2), "init": "ones", "dtype": DType.INT64}),
    }
    roles = [
        node.operation.role for node in graph.tensors if isinstance(node.operation, Placeholder)
    ]
    assert roles == [Role.PARAMETER, Role.PARAMETER, Role.BUFFER, Role.BUFFER]


def test_a_nested_model_checks_and_binds_sizes() -> None:
    graph = graph_of(
        "input x: [b, n]\npair = Pair()\ny, z = pair(x, right=x)\nreturn y + z",
        after="model Pair:\n    input left: [rows, size]\n    input right: [rows, size]\n"
        "    return left / size, right / rows\n",
    )
    assert text(graph.outputs[0].node) == "add(div(x, 8), div(x, size(b)))"


def test_functions_bind_names_and_return_several_values() -> None:
    graph = graph_of(
        "input x: [b, n]\nlow, _ = bounds(x, width=2)\nreturn low",
        after="fn bounds(t, width=1.0):\n    m = mean(t, dim=1)\n    return m - width, m + width",
    )
    assert text(graph.outputs[0].node) == "sub(mean(x), 2)"


def test_model_arguments() -> None:
    header = 'model M(n, k=2 * n, bias=True, eps=1e-5, mode="none"):'
    body = "input x: [b, n]\nfc = Linear(n, k, bias)\nreturn x |> fc |> gelu(mode) |> add(eps)"
    graph = graph_of(body, header, arguments={"n": 4, "eps": 1, "mode": "tanh", "bias": False})
    assert dict(graph.arguments) == {"n": 4, "k": 8, "bias": False, "eps": 1, "mode": "tanh"}
    assert state(graph) == {"fc.weight": "float32[8, 4]"}


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        ({}, "model 'M' needs a value for the argument 'n'", "pass it with -D n=VALUE"),
        ({"n": 1, "wdth": 1}, "model 'M' has no argument 'wdth'", "did you mean 'width'?"),
        ({"n": 1, "q": 1}, "model 'M' has no argument 'q'", "its arguments are 'n', 'width'"),
        ({"n": [1]}, "argument 'n' of model 'M' is a list", "model arguments are integers"),
        ({"n": 1, "width": 1.5}, "argument 'width' of model 'M' cannot be the number 1.5", "it is"),
        ({"n": 1, "width": True}, "argument 'width' of model 'M' cannot be True", "it is the num"),
    ],
)
def test_arguments_a_model_does_not_take(
    arguments: dict[str, object], message: str, hint: str
) -> None:
    with pytest.raises(FusegenError) as failure:
        graph_of("input x: [n, width]\nreturn x", "model M(n, width=3):", arguments=arguments)
    assert failure.value.message == message
    assert (failure.value.hint or "").startswith(hint)


TWO = "model A:\n    input x: [b]\n    return x\nmodel B:\n    input x: [b, b]\n    return x\n"


def test_the_model_to_compile_is_the_one_no_other_uses() -> None:
    outer = "model C:\n    input x: [b]\n    a = A()\n    return a(x)\n"
    assert elaborated(TWO.split("model B")[0] + outer).graph.name == "C"
    assert elaborated(TWO, model="B").graph.name == "B"


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        (
            None,
            "'model.fuse' has several models: 'A', 'B'",
            "say which: --model NAME, or model='NAME' in Python",
        ),
        ("Aa", "'model.fuse' has no model 'Aa'", "its models are 'A', 'B'"),
    ],
)
def test_no_one_model_to_compile(name: str | None, message: str, hint: str) -> None:
    with pytest.raises(FusegenError) as failure:
        elaborated(TWO, model=name)
    assert (failure.value.message, failure.value.hint) == (message, hint)


def test_numbers_are_computed_as_python_does() -> None:
    graph = graph_of("input x: [b]\nreturn x * ((7 // -2 + 7 % -2) * 0.5 ** 2 - abs(-3))")
    (_, factor) = graph.outputs[0].node.operands
    assert factor.attributes["value"] == (7 // -2 + 7 % -2) * 0.5**2 - 3
    nan = graph_of("input x: [b]\nreturn x * nan").outputs[0].node.operands[1].attributes["value"]
    assert isinstance(nan, float) and math.isnan(nan)


@pytest.mark.parametrize(("flag", "expected"), [(True, [1.0, -2.0]), (False, [-1.0, 2.0])])
def test_an_argument_chooses_between_values(flag: bool, expected: list[float]) -> None:
    body = "input x: [b]\nreturn where(flag, x, -x), where(flag, 1, x)"
    module = load(model(body, "model M(flag=True):"), Target.CUDA)(flag=flag)
    chosen, other = module(torch.tensor([1.0, -2.0]))
    assert chosen.tolist() == expected
    assert other.tolist() == ([1.0, 1.0] if flag else [1.0, -2.0])
