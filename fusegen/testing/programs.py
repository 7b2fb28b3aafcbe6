"""Hypothesis strategies of whole models, as source text: everything the language has, mixed.

A program grows line by line. A line that the frontend refuses is left out again, so that what is
drawn is always a right program, and no rule of the language is written down a second time here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import strategies as st

from fusegen.errors import SourceError
from fusegen.frontend import Source, elaborate, parse
from fusegen.ir.graph import TensorType

WIDTHS = (1, 2, 3, 4, 6, 7, 8, 12, 16, 17, 24, 32, 33, 40)
NUMBERS = ("0.5", "2", "-1.5", "3", "1e-3")
UNARY = (
    *("neg", "abs", "sign", "square", "exp", "exp2", "expm1", "log1p", "sin", "cos", "tan", "tanh"),
    *("erf", "floor", "ceil", "trunc", "round", "sigmoid", "logsigmoid", "relu", "relu6", "selu"),
    *("leaky_relu(0.2)", "elu(1.5)", "celu(alpha=0.7)", "gelu", 'gelu(approximate="tanh")', "silu"),
    *("mish", "softplus", "softplus(2, threshold=3)", "softsign", "softshrink(0.3)", "hardshrink"),
    *("tanhshrink", "threshold(0.1, -2)", "hardtanh(-0.5, 0.5)", "hardsigmoid", "hardswish"),
    *("clone", "sqrt", "rsqrt", "reciprocal", "log", "log2", "log10", "isnan", "isinf", "isfinite"),
    *(
        "logical_not",
        "bitwise_not",
        "round(decimals=1)",
        "flatten",
        "squeeze(dim=-1)",
        "own",
        "Mish()",
    ),
    *("sum", "mean", "amax", "argmin", "norm", "logsumexp(dim=(-2, -1))", "var(correction=0)"),
)
BINARY = ("+", "-", "*", "/", "**", "//", "%", "==", "<", ">=", "!=", "@", "&", "|", "^")
FUNCTIONS_OF_TWO = (
    *("maximum", "minimum", "remainder", "logical_and", "logical_xor", "own_of_two", "add", "bmm"),
)
REDUCTIONS = (
    *("sum", "mean", "amax", "amin", "var", "std", "norm", "logsumexp", "prod", "argmax", "argmin"),
    *("any", "all"),
)
ALONG = ("softmax", "log_softmax")
DTYPES = ("float32", "float16", "bfloat16", "float64", "int64", "int8", "bool")
# What a program can call.
FUNCTIONS = """
fn own(t, a=0.5) = t * sigmoid(a * t)

fn own_of_two(s, t):
    both = s + t
    return both / (1 + abs(both))
"""
BLOCK = """
model Block(width):
    input x: [m, width]
    norm = LayerNorm(width)
    fc = Linear(width, width)
    return x + (x |> norm |> fc |> gelu)
"""


@dataclass(frozen=True)
class Value:
    """A name in the program and the type it has when the module is float32."""

    name: str
    type: TensorType


@dataclass
class _Program:
    """The lines of a model so far, and what they define."""

    inputs: list[str]
    lines: list[str] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)

    def text(self, returned: str) -> str:
        body = [*self.inputs, *self.lines, f"return {returned}"]
        text = "\n    ".join(["model Drawn():", *body]) + "\n"
        return text + FUNCTIONS * ("own" in text) + BLOCK * ("Block" in text)

    def add(self, *lines: str) -> bool:
        """Add lines, of which the last defines a value; False if the frontend refuses them."""
        name = lines[-1].partition(" = ")[0]
        grown = _Program(self.inputs, [*self.lines, *lines])
        try:
            graph = elaborate(parse(Source("drawn.fuse", grown.text(name)))).graph
        except SourceError:
            return False
        self.lines = grown.lines
        self.values.append(Value(name, graph.outputs[0].node.type))
        return True


@st.composite
def model_sources(draw: st.DrawFn, *, most_operations: int = 30) -> str:
    """The text of a model `Drawn` of up to `most_operations` operations, with one to three results
    and the symbolic sizes `n` and, for images, `h`."""
    width = draw(st.sampled_from(WIDTHS))
    shape = f"[n, {width}]" if draw(st.booleans()) else f"[n, {width}, h, 5]"
    third = draw(st.sampled_from(("", "", f"[{width}, 5]", "int64[n, 1]", "bool[n, 1]", "[]")))
    inputs = [f"input x: {shape}", f"input y: {shape}", *([f"input z: {third}"] if third else [])]
    program = _Program(inputs)
    for line in inputs:
        name = line.split()[1].rstrip(":")
        typed = elaborate(parse(Source("drawn.fuse", program.text(name)))).graph
        program.values.append(Value(name, typed.outputs[0].node.type))
    few = draw(st.booleans())  # faults of few operations are found sooner in small models
    count = draw(st.integers(1, min(most_operations, 6) if few else most_operations))
    for number in range(count):
        program.add(*draw(_lines(program, f"v{number}")))
    computed = [value.name for value in program.values[len(inputs) :]] or ["x + y"]
    others = draw(st.lists(st.sampled_from(computed), max_size=2, unique=True))
    return program.text(", ".join(dict.fromkeys([computed[-1], *others])))


@st.composite
def _lines(draw: st.DrawFn, program: _Program, name: str) -> tuple[str, ...]:
    """Lines that define `name`, from the values so far."""
    recent = program.values[-1:] * 3 + program.values
    first, second = draw(st.sampled_from(recent)), draw(st.sampled_from(program.values))
    kind = draw(st.sampled_from(_KINDS))
    return draw(kind(first, second, name))


Kind = Callable[[Value, Value, str], st.SearchStrategy[tuple[str, ...]]]


@st.composite
def _unary(draw: st.DrawFn, x: Value, y: Value, name: str) -> tuple[str, ...]:
    return (f"{name} = {x.name} |> {draw(st.sampled_from(UNARY))}",)


@st.composite
def _operator(draw: st.DrawFn, x: Value, y: Value, name: str) -> tuple[str, ...]:
    other = draw(st.sampled_from((y.name, y.name, *NUMBERS)))
    return (f"{name} = {x.name} {draw(st.sampled_from(BINARY))} {other}",)


@st.composite
def _function_of_two(draw: st.DrawFn, x: Value, y: Value, name: str) -> tuple[str, ...]:
    return (f"{name} = {draw(st.sampled_from(FUNCTIONS_OF_TWO))}({x.name}, {y.name})",)


@st.composite
def _selection(draw: st.DrawFn, x: Value, y: Value, name: str) -> tuple[str, ...]:
    number = draw(st.sampled_from(NUMBERS))
    return (
        draw(
            st.sampled_from(
                (
                    f"{name} = where({x.name} > {number}, {x.name}, {y.name})",
                    f"{name} = clamp({x.name}, -1, {number})",
                )
            )
        ),
    )


@st.composite
def _reduction(draw: st.DrawFn, x: Value, y: Value, name: str) -> tuple[str, ...]:
    dim = draw(st.integers(-x.type.rank, max(x.type.rank - 1, 0)))
    keep = draw(st.booleans())
    return (f"{name} = {draw(st.sampled_from(REDUCTIONS))}({x.name}, dim={dim}, keepdim={keep})",)


@st.composite
def _along(draw: st.DrawFn, x: Value, y: Value, name: str) -> tuple[str, ...]:
    dim = draw(st.integers(-x.type.rank, max(x.type.rank - 1, 0)))
    return (f"{name} = {draw(st.sampled_from(ALONG))}({x.name}, dim={dim})",)


@st.composite
def _norm(draw: st.DrawFn, x: Value, y: Value, name: str) -> tuple[str, ...]:
    last, channels = _size(x, -1), _size(x, 1)
    groups = draw(st.sampled_from([g for g in (1, 2, 3, 4, 8) if channels % g == 0]))
    rank = max(x.type.rank - 2, 0)
    layers = {
        f"LayerNorm({last})": f"layer_norm({x.name}, ({last},), eps=0.1)",
        f"RMSNorm({last}, eps=0.1)": f"rms_norm({x.name}, ({last},), eps=0.1)",
        f"GroupNorm({groups}, {channels})": f"group_norm({x.name}, {groups}, eps=0.1)",
        f"BatchNorm{rank or 1}d({channels})": f"{x.name} - mean({x.name}, dim=0)",
        f"InstanceNorm{rank or 1}d({channels}, affine=True)": f"instance_norm({x.name}, eps=0.1)",
        f"Block({last})": f"own({x.name}, 2)",
    }
    layer = draw(st.sampled_from(sorted(layers)))
    if draw(st.booleans()):
        return (f"{name} = {layers[layer]}",)
    return f"{name}_layer = {layer}", f"{name} = {name}_layer({x.name})"


@st.composite
def _product(draw: st.DrawFn, x: Value, y: Value, name: str) -> tuple[str, ...]:
    width, last = draw(st.sampled_from(WIDTHS)), _size(x, -1)
    calls = {
        f"{name}_layer = Linear({last}, {width})": f"{name}_layer({x.name})",
        f"{name}_weight = Parameter([{last}, {width}])": f"{x.name} @ {name}_weight",
        f"{name}_layer = Conv2d({_size(x, 1)}, {width}, 3, padding=1)": f"{name}_layer({x.name})",
        f"{name}_layer = ConvTranspose2d({_size(x, 1)}, 3, 2, stride=2)": f"{name}_layer({x.name})",
        f"{name}_layer = Conv1d({_size(x, 1)}, {width}, 2)": f"{name}_layer({x.name})",
        f"{name}_turned = transpose({y.name}, -2, -1)": f"{x.name} @ {name}_turned",
        f"{name}_bias = Buffer([{width}], init=0.5)": (
            f"addmm({name}_bias, {x.name}, reshape({y.name}, [{last}, -1])[:, :{width}])"
        ),
    }
    before = draw(st.sampled_from(sorted(calls)))
    return before, f"{name} = {calls[before]}"


@st.composite
def _view(draw: st.DrawFn, x: Value, y: Value, name: str) -> tuple[str, ...]:
    last, half = _size(x, -1), max(_size(x, -1) // 2, 1)
    dim = draw(st.integers(-x.type.rank, max(x.type.rank - 1, 0)))
    texts = (
        f"transpose({x.name}, {dim}, -1)",
        f"unsqueeze({x.name}, {dim})",
        f"{x.name}[..., {half}:]",
        f"{x.name}[..., ::2]",
        f"{x.name}[..., 0]",
        f"{x.name}[..., None]",
        f"reshape({x.name}, [-1, {last}])",
        f"unflatten({x.name}, -1, ({last // half}, {half}))",
        f"cat([{x.name}, {y.name}], dim={dim})",
        f"stack([{x.name}, {y.name}, {x.name}], dim={dim})",
        f"narrow({x.name}, -1, 0, {half})",
        f"flatten({x.name}, 1)",
        f"permute({x.name}, {tuple(reversed(range(x.type.rank)))})",
        f"expand({x.name}[None], {[3, *(-1 for _ in x.type.shape)]})",
        f"chunk({x.name}, 2, dim=-1)[1]",
        f"{x.name}[..., 1::3] * {y.name}[..., 1::3]",
    )
    return (f"{name} = {draw(st.sampled_from(texts))}",)


@st.composite
def _pool(draw: st.DrawFn, x: Value, y: Value, name: str) -> tuple[str, ...]:
    function = draw(st.sampled_from(("max_pool2d", "avg_pool2d", "max_pool1d", "avg_pool1d")))
    size, ceil = draw(st.integers(1, 3)), draw(st.booleans())
    return (f"{name} = {function}({x.name}, {size}, padding=1, ceil_mode={ceil})",)


@st.composite
def _cast(draw: st.DrawFn, x: Value, y: Value, name: str) -> tuple[str, ...]:
    return (f"{name} = to({x.name}, {draw(st.sampled_from(DTYPES))})",)


_KINDS: tuple[Kind, ...] = (
    *(_unary, _operator, _operator, _function_of_two, _selection, _reduction, _along, _norm),
    *(_product, _view, _view, _pool, _cast),
)


def _size(value: Value, dim: int) -> int:
    """A dimension's size where it is a known one, else 1."""
    shape = value.type.shape
    return (shape[dim].constant or 1) if -len(shape) <= dim < len(shape) else 1
