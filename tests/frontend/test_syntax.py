"""The syntax tree: what the rules of the grammar become."""

from __future__ import annotations

import pytest
from lark import Lark

from fusegen import resources
from fusegen.errors import Span
from fusegen.frontend import Source, parse
from fusegen.frontend.syntax import RULES, Binary, Binding, Input, Return, references, walk

PROGRAM = """model M(n, k=2 * n):
    input x: int64[b, n]
    y, _ = chunk(x[:, ..., 1:2], 2, dim=-1)
    return (y + 1) ** 2 |> relu, True
fn f(t) = [t, (t,)] < 1.5
"""


def test_the_tree_of_a_program() -> None:
    program = parse(Source("m.fuse", PROGRAM))
    assert list(program.models) == ["M"] and list(program.functions) == ["f"]
    assert program.outline().splitlines() == [
        "Model 1:1",
        "  Name 'M' 1:7",
        "  Parameters 1:8",
        "    Parameter 1:9",
        "      Name 'n' 1:9",
        "    Parameter 1:12",
        "      Name 'k' 1:12",
        "      Binary '*' 1:14",
        "        Number 2 1:14",
        "        Name 'n' 1:18",
        "  Block 1:21",
        "    Input 2:5",
        "      Name 'x' 2:11",
        "      Name 'int64' 2:14",
        "      Name 'b' 2:20",
        "      Name 'n' 2:23",
        "    Binding 3:5",
        "      Targets 3:5",
        "        Name 'y' 3:5",
        "        Name '_' 3:8",
        "      Call 3:12",
        "        Name 'chunk' 3:12",
        "        Index 3:18",
        "          Name 'x' 3:18",
        "          Slice 3:20",
        "          Dots 3:23",
        "          Slice 3:28",
        "            Number 1 3:28",
        "            Number 2 3:30",
        "        Number 2 3:34",
        "        Keyword 3:37",
        "          Name 'dim' 3:37",
        "          Unary '-' 3:41",
        "            Number 1 3:42",
        "    Return 4:5",
        "      Pipe 4:12",
        "        Binary '**' 4:12",
        "          Binary '+' 4:13",
        "            Name 'y' 4:13",
        "            Number 1 4:17",
        "          Number 2 4:23",
        "        Name 'relu' 4:28",
        "      Constant True 4:34",
        "Function 5:1",
        "  Name 'f' 5:4",
        "  Parameters 5:5",
        "    Parameter 5:6",
        "      Name 't' 5:6",
        "  Comparison '<' 5:11",
        "    ListDisplay 5:11",
        "      Name 't' 5:12",
        "      TupleDisplay 5:15",
        "        Name 't' 5:16",
        "    Number 1.5 5:23",
    ]


def test_spans_have_their_ends() -> None:
    statements = parse(Source("m.fuse", PROGRAM)).models["M"].statements
    assert [type(statement) for statement in statements] == [Input, Binding, Return]
    assert [statement.span for statement in statements] == [
        Span(2, 5, 2, 25),
        Span(3, 5, 3, 44),
        Span(4, 5, 4, 38),
    ]


def test_references_are_the_names_that_are_read() -> None:
    model = parse(Source("m.fuse", PROGRAM)).models["M"]
    assert [name.text for name in references(model.body)] == ["b", "n", "chunk", "x", "y", "relu"]


@pytest.mark.parametrize(
    ("text", "value"),
    [("1_000", 1000), ("1e-5", 1e-5), (".5", 0.5), ("2.", 2.0), ("0", 0), ("1E3", 1000.0)],
)
def test_numbers(text: str, value: float) -> None:
    program = parse(Source("m.fuse", f"model M:\n    return {text} + x\n"))
    (found,) = [piece for piece in walk(program.models["M"].body) if isinstance(piece, Binary)]
    assert found.left.value == value and type(found.left.value) is type(value)  # type: ignore[union-attr]


def test_every_class_has_the_name_of_its_rule() -> None:
    grammar = Lark(resources.grammar("fuse.lark"), start="program", parser="lalr", lexer="basic")
    rules = {str(rule.alias or rule.origin.name) for rule in grammar.rules}
    assert rules >= RULES.keys()
    for rule, kind in RULES.items():
        assert kind.__name__ == "".join(word.title() for word in rule.split("_"))
