"""Whatever is done to a program, it is elaborated or refused in words: nothing else is raised."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from fusegen.errors import FusegenError, SourceError
from fusegen.frontend import Source, elaborate, parse

EXAMPLES = Path(__file__).parents[2] / "examples"
RICH = """# A program with a bit of everything.
model Main(n=8, heads=2, scale=1e-3, mode="tanh", flag=True):
    input x: [b, n]
    input mask: bool[b, 1]
    hidden = 2 * n // heads
    block = Block(n, hidden)
    bias = Parameter([n], init=0.5)
    left, right = chunk(x, 2, dim=-1)
    y = where(mask, x |> block |> gelu(mode), -inf) / sqrt(n)
    z = cat([left[:, 0:2], right[..., None, ::2][:, 0]], dim=1) |> softmax(dim=1)
    return y * bias + x ** 2 @ transpose(block.fc.weight, 0, 1), (z > 0) & flag, -f(x, t=scale)

model Block(dim, hidden):
    input x: [b, dim]
    norm = BatchNorm1d(dim)
    fc = Linear(dim, dim, bias=False)
    shift = Buffer([hidden])
    return x |> norm |> fc

fn f(u, t=2):
    s, _ = u * t, u
    return s % 3 - mean(u, dim=1, keepdim=True)
"""
PROGRAMS = [RICH, *(path.read_text(encoding="utf-8") for path in sorted(EXAMPLES.rglob("*.fuse")))]
PIECES = [
    *("(", ")", "[", "]", ",", ":", "=", "==", "|>", "+", "-", "*", "**", "@", "/", "//", "%"),
    *(".", "...", "\n", "    ", "\t", "#", '"', "'", "0", "-1", "1e400", "2.5", "x", "n", "b"),
    *("None", "True", "inf", "nan", "model", "fn", "input", "return", "and", "not", "relu"),
    *("Linear", "Block", "float32", "reshape(x, [b, -1])", "sum(x)", "x.T", "é", "\x00"),
]


@st.composite
def mutated_programs(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(PROGRAMS))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 6)))
        piece = draw(
            st.one_of(
                st.sampled_from(PIECES),
                st.sampled_from(text.split() or [""]),
                st.just(""),
                st.text(max_size=3),
            )
        )
        text = text[:start] + piece + text[end:]
    return text


@settings(max_examples=300)
@given(mutated_programs(), st.booleans())
def test_only_errors_for_people(text: str, training: bool) -> None:
    try:
        elaborate(parse(Source("mutated.fuse", text)), training=training)
    except SourceError as failure:
        lines = failure.source.splitlines() or [""]
        for diagnostic in failure.diagnostics:
            assert diagnostic.message and diagnostic.span is not None
            assert 1 <= diagnostic.span.line <= len(lines) + 1
            assert diagnostic.span.column >= 1
    except FusegenError as failure:
        assert failure.message
