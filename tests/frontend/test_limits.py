"""Programs of unusual length and depth: they work, or are refused in words."""

from __future__ import annotations

import random

import pytest

from fusegen.errors import SourceError
from fusegen.frontend import Source, parse
from fusegen.ir.graph import topological
from tests.frontend.programs import elaborated, errors

HEADER = "model M(n=8):\n    input x: [b, n]\n    return "
TOO_DEEP = "this is nested more than 60 levels deep"


@pytest.mark.parametrize(
    ("expression", "nodes"),
    [
        ("x" + " |> relu" * 5000, 5001),
        ("x" + "\n        |> relu" * 5000, 5001),
        ("x" + " + x" * 5000, 5001),
        ("(" * 5000 + "x" + ")" * 5000, 1),
    ],
    ids=["pipes", "pipes on lines", "sum", "brackets"],
)
def test_long_chains_work(expression: str, nodes: int) -> None:
    graph = elaborated(HEADER + expression).graph
    assert len(topological(graph.roots)) == nodes


@pytest.mark.parametrize(
    "expression",
    [
        "relu(" * 1000 + "x" + ")" * 1000,
        "-" * 1000 + "x",
        "not " * 1000 + "x",
        "x" + " ** 2" * 1000,
        "[" * 1000 + "x" + "]" * 1000,
        "x" + "[:]" * 1000,
    ],
)
def test_deep_nesting_is_refused(expression: str) -> None:
    (error,) = errors(HEADER + expression + "\n")
    assert error[3:] == (TOO_DEEP, "bind parts of it to names")


def test_deep_chains_of_definitions_are_refused() -> None:
    functions = "".join(f"fn f{i}(t) = f{i + 1}(t)\n" for i in range(500)) + "fn f500(t) = t\n"
    assert TOO_DEEP in errors(HEADER + "f0(x)\n" + functions)[0][3]
    body = "    input x: [b]\n    inner = {}\n    return inner(x)\n"
    models = "".join(f"model A{i}:\n" + body.format(f"A{i + 1}()") for i in range(500))
    last = "model A500:\n    input x: [b]\n    return x\n"
    assert TOO_DEEP in errors(models + last)[0][3]


def test_exponential_programs_are_refused() -> None:
    functions = "".join(f"fn f{i}(t) = f{i + 1}(t) + f{i + 1}(t)\n" for i in range(25))
    (error,) = errors(HEADER + "f0(x)\n" + functions + "fn f25(t) = t\n")
    assert error[3].startswith("the model takes more than 200,000 steps")
    sizes = "    s0 = b + c + d\n" + "".join(f"    s{i + 1} = s{i} * s{i}\n" for i in range(20))
    (error, *_) = errors(f"model M:\n    input x: [b, c, d]\n{sizes}    return x / s20\n")
    assert error[3] == "the size that '*' gives is a sum of too many terms"


@pytest.mark.parametrize("piece", ["x y (\n", "(", ")", "'", "\n", " \n", "#", "|>", "[]\n", "9"])
def test_a_long_text_of_one_thing_is_refused(piece: str) -> None:
    text = piece * ((1 << 17) // len(piece))
    with pytest.raises(SourceError):
        parse(Source("noise.fuse", text))


def test_random_characters_are_refused() -> None:
    generator = random.Random(0)
    text = "".join(chr(generator.randrange(1, 300)) for _ in range(1 << 16))
    with pytest.raises(SourceError) as failure:
        parse(Source("noise.fuse", text))
    assert 1 <= len(failure.value.diagnostics) <= 100


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "    \n\t\n"])
def test_an_empty_program(text: str) -> None:
    assert errors(text) == [
        (1, 1, 2, "the program is empty", "a model starts with: model Name(...):")
    ]


def test_a_program_without_a_model() -> None:
    assert errors("fn f(x) = x\n")[0][3] == "the program defines no model"
