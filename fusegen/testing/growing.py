"""Programs that grow line by line, as random ones do.

A line that the frontend refuses is left out again, so that what is drawn is always a right program,
and no rule of the language is written down a second time here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import Formatter

from hypothesis import strategies as st

from fusegen.errors import SourceError
from fusegen.frontend import Source, elaborate, parse
from fusegen.ir.graph import TensorType
from fusegen.testing import calls

WIDTHS = (1, 2, 3, 4, 6, 7, 8, 12, 16, 17, 24, 32, 33, 40)
NUMBERS = ("0.5", "2", "-1.5", "3", "1e-3")
DTYPES = ("float32", "float16", "bfloat16", "float64", "int64", "int32", "int8", "uint8", "bool")
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
class Program:
    """The inputs and lines of a model so far, and what they define."""

    inputs: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)

    def text(self, returned: str) -> str:
        body = [*self.inputs, *self.lines, f"return {returned}"]
        text = "\n    ".join(["model Drawn():", *body]) + "\n"
        return text + FUNCTIONS * ("own" in text) + BLOCK * ("Block" in text)

    def value(self, name: str) -> Value:
        """One of the names that the program defines, or an input."""
        text = self.text(name)
        program = parse(Source("drawn.fuse", text))
        if "BatchNorm" in text:  # may refuse in training what it takes otherwise
            elaborate(program, training=True)
        graph = elaborate(program).graph
        return Value(name, graph.outputs[0].node.type)

    def take(self, name: str, shape: str) -> Value:
        """Add an input."""
        self.inputs.append(f"input {name}: {shape}")
        self.values.append(self.value(name))
        return self.values[-1]

    def add(self, *lines: str) -> bool:
        """Add lines, of which the last defines a value; False if the frontend refuses them."""
        grown = Program(self.inputs, [*self.lines, *lines])
        try:
            defined = grown.value(lines[-1].partition(" = ")[0])
        except SourceError:
            return False
        self.lines = grown.lines
        self.values.append(defined)
        return True


@st.composite
def any_lines(draw: st.DrawFn, values: Sequence[Value], name: str) -> tuple[str, ...]:
    """Lines that define `name` from values of which the last is the likeliest."""
    x = draw(st.sampled_from([*[values[-1]] * 3, *values]))
    y = draw(st.sampled_from(values))
    text = draw(st.sampled_from(draw(st.sampled_from(calls.GROUPS))))
    return draw(filled(text, x, y, name))


@st.composite
def filled(
    draw: st.DrawFn,
    text: str,
    x: Value,
    y: Value,
    name: str,
    given: Mapping[str, object] | None = None,
) -> tuple[str, ...]:
    """The lines of a text of `fusegen.testing.calls` that define `name` from two values, and from
    what is `given` for fields of the caller's own."""
    last, channels, rank = _size(x, -1), _size(x, 1), x.type.rank
    half = max(last // 2, 1)
    known = {
        **{"v": name, "x": x.name, "y": y.name, "last": last, "channels": channels},
        **{"half": half, "rest": last // half, "reversed": tuple(reversed(range(rank)))},
        **{"expanded": [3, *(-1 for _ in range(rank))], **(given or {})},
    }
    drawn: dict[str, st.SearchStrategy[object]] = {
        "number": st.sampled_from(NUMBERS),
        "dim": st.integers(-rank, max(rank - 1, 0)),
        "flag": st.booleans(),
        "groups": st.sampled_from([g for g in (1, 2, 3, 4, 8) if channels % g == 0]),
        "width": st.sampled_from(WIDTHS),
        "window": st.sampled_from((2, 3, 1)),
        "dtype": st.sampled_from(DTYPES),
        "p": st.sampled_from(("0.3", "0.5", "0.9", "0", "1")),
    }
    values = {field: draw(drawn[field]) for field in sorted(fields(text) - known.keys())}
    return tuple(text.format(**known, **values).split("\n"))


def fields(text: str) -> set[str]:
    """The names of a text's fields."""
    return {field for _, field, *_ in Formatter().parse(text) if field}


def _size(value: Value, dim: int) -> int:
    """A dimension's size where it is a known one, else 1."""
    shape = value.type.shape
    return (shape[dim].constant or 1) if -len(shape) <= dim < len(shape) else 1
