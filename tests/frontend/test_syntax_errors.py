"""Syntax errors: each is told in words, at its place, and with the mend where there is one."""

from __future__ import annotations

import pytest

from tests.frontend.programs import Finding, errors

# A statement in line 3, and what is wrong with it: columns, message, hint.
STATEMENTS: list[tuple[str, int, int, str, str | None]] = [
    (
        "y = x +",
        12,
        13,
        "expected a value after '+', but found the end of the line",
        "a line goes on inside brackets: put brackets around the whole expression",
    ),
    ("y = relu(x", 13, 14, "'(' is never closed", "add the missing ')'"),
    (
        "y = relu x",
        14,
        15,
        "expected an operator or the end of the line after 'relu', but found 'x'",
        "if relu is a function, write relu(x)",
    ),
    ("y = (x]", 11, 12, "']' does not close the '(' of line 3, column 9", "write ')'"),
    ("y = x)", 10, 11, "')' closes nothing", "remove it"),
    (
        "y == x",
        7,
        9,
        "expected '=' after 'y', but found '=='",
        "a statement is name = value, or return value",
    ),
    (
        "y = x = z",
        11,
        12,
        "expected an operator or the end of the line after 'x', but found '='",
        "equality is written '=='",
    ),
    ("y = x $ z", 11, 12, "the character '$' has no meaning here", "remove it"),
    ('y = "abc', 9, 10, "this string is not closed on its line", 'add the missing "'),
    (
        "relu(x)",
        9,
        10,
        "expected '=' after 'relu', but found '('",
        "a statement is name = value, or return value",
    ),
    ("retrun x", 12, 13, "expected '=' after 'retrun', but found 'x'", "did you mean 'return'?"),
    (
        "y += 1",
        7,
        8,
        "expected '=' after 'y', but found '+'",
        "a name is bound once: write new_name = y + ...",
    ),
    (
        "y: [3]",
        6,
        7,
        "expected '=' after 'y', but found ':'",
        "an input is declared with: input y: [...]",
    ),
    ("def f(x):", 5, 8, "'def' is not a word of this language", "a function starts with 'fn'"),
    (
        "fn f(x) = x",
        5,
        7,
        "a function cannot be defined inside another definition",
        "move it to the start of a line at the top of the file, with no indentation",
    ),
    (
        "y = x if x else 3",
        11,
        13,
        "'if' is not a word of this language",
        "write where(condition, a, b)",
    ),
    (
        "y = x |> relu + 1",
        19,
        20,
        "'+' cannot follow a pipe, whose right side is one function or layer",
        "put the pipe in brackets: (x |> f) + y",
    ),
    (
        "y = x |>",
        13,
        14,
        "expected a function or layer after '|>', but found the end of the line",
        "a pipe goes at the start of the next line, before its function",
    ),
    (
        "y = 2x",
        10,
        11,
        "expected an operator or the end of the line after '2', but found 'x'",
        "write 2 * x",
    ),
    ("y = x && x", 12, 13, "expected a value after '&', but found '&'", "write 'and'"),
    ("y = [1, 2", 9, 10, "'[' is never closed", "add the missing ']'"),
    (
        "input = 3",
        5,
        10,
        "'input' is a word of the language and cannot be a name here",
        "choose another name, such as 'input_'",
    ),
    (
        "input y",
        12,
        13,
        "expected ':' after 'y', but found the end of the line",
        "an input is declared with: input name: [sizes], or input name: dtype[sizes]",
    ),
    (
        "input y: 3",
        14,
        15,
        "expected '[' after ':', but found '3'",
        "an input is declared with: input name: [sizes], or input name: dtype[sizes]",
    ),
    (
        "y = f(input=3)",
        11,
        16,
        "'input' is a word of the language and cannot be a name here",
        "choose another name, such as 'input_'",
    ),
    ("return", 11, 12, "expected a value after 'return', but found the end of the line", None),
    ("y = f(x,, x)", 13, 14, "expected a value after ',', but found ','", None),
    ("y = x[]", 11, 12, "expected a value after '[', but found ']'", None),
    (
        "y = x.3",
        10,
        12,
        "expected an operator or the end of the line after 'x', but found '.3'",
        None,
    ),
    (
        "3 = y",
        5,
        6,
        "a statement starts with 'input', 'return' or the name it binds, but found '3'",
        None,
    ),
    ("y = x; z = x", 10, 11, "the character ';' has no meaning here", "write one statement a line"),
    (
        "for i in x:",
        5,
        8,
        "'for' is not a word of this language",
        "there are no loops: write the steps out, or bind the repeated part in a function",
    ),
    (
        "y = 99999999999999999999",
        9,
        29,
        "this number is beyond a 64-bit integer",
        "write it with a decimal point",
    ),
    (
        "y z = x",
        7,
        8,
        "expected '=' after 'y', but found 'z'",
        "a statement is name = value, or return value",
    ),
    (
        "y = {x}",
        9,
        10,
        "the character '{' has no meaning here",
        "lists have square brackets: [a, b]",
    ),
    ("y = !x", 9, 10, "the character '!' has no meaning here", "write 'not'"),
    ("y = not", 12, 13, "expected a value after 'not', but found the end of the line", None),
    ("y = x.", 11, 12, "expected a name after '.', but found the end of the line", None),
    ("y = x[1:2:3:4]", 16, 17, "expected an operator, ',' or ']' after '3', but found ':'", None),
    (
        ", y = x",
        5,
        6,
        "a statement starts with 'input', 'return' or the name it binds, but found ','",
        None,
    ),
    (
        "y = return",
        9,
        15,
        "'return' is a word of the language and cannot be a name here",
        "choose another name, such as 'return_'",
    ),
    (
        "lambda x: x",
        5,
        11,
        "'lambda' is not a word of this language",
        "define the function at the top of the file with 'fn'",
    ),
    (
        "x |> relu",
        7,
        9,
        "expected '=' after 'x', but found '|>'",
        "a statement is name = value, or return value",
    ),
    ("y, = x", 8, 9, "expected a name after ',', but found '='", None),
    (
        "a, b x",
        10,
        11,
        "expected '=' after 'b', but found 'x'",
        "a statement is name = value, or return value",
    ),
    (
        "y = x |> 3 3",
        16,
        17,
        "expected an operator or the end of the line after '3', but found '3'",
        None,
    ),
]


@pytest.mark.parametrize(
    ("statement", "column", "end", "message", "hint"), STATEMENTS, ids=[s[0] for s in STATEMENTS]
)
def test_statement(statement: str, column: int, end: int, message: str, hint: str | None) -> None:
    program = f"model M(n=8):\n    input x: [b, n]\n    {statement}\n    return x\n"
    assert errors(program) == [(3, column, end, message, hint)]


PROGRAMS: list[tuple[str, list[Finding]]] = [
    (
        "modle M():\n    return x\n",
        [
            (
                1,
                1,
                6,
                "expected 'model' or 'fn' at the start of a definition, but found 'modle'",
                "did you mean 'model'?",
            )
        ],
    ),
    (
        "model M()\n    return x\n",
        [
            (
                1,
                10,
                11,
                "expected ':' after ')', but found the end of the line",
                "a model's header is model Name(arguments):",
            )
        ],
    ),
    (
        "model M(a b):\n    return x\n",
        [(1, 11, 12, "expected ')', ',' or '=' after 'a', but found 'b'", None)],
    ),
    (
        "model M():\nreturn x\n",
        [
            (
                1,
                1,
                6,
                "the model has no indented body",
                "indent the model's statements by four spaces",
            )
        ],
    ),
    (
        "fn f(x)\n",
        [
            (
                1,
                8,
                9,
                "expected '=' or ':' after ')', but found the end of the line",
                "a function is fn name(x) = expression, or fn name(x): and an indented block",
            )
        ],
    ),
    (
        "fn f(x):\n",
        [
            (
                1,
                1,
                3,
                "the function has no indented body",
                "indent the function's statements by four spaces, or write fn name(x) = expression",
            )
        ],
    ),
    ("fn f x = 2\n", [(1, 6, 7, "expected '(' after 'f', but found 'x'", None)]),
    (
        "x = 3\n",
        [
            (
                1,
                1,
                2,
                "expected 'model' or 'fn' at the start of a definition, but found 'x'",
                "indent the statements of a model under its header: model Name(...):",
            )
        ],
    ),
    ("  model M:\n    return x\n", [(2, 12, 13, "'x' is not known here", None)]),
    ("model:\n    return x\n", [(1, 6, 7, "expected a name after 'model', but found ':'", None)]),
    (
        "model M():\n    input x: [2]\n      y = x\n    return y\n",
        [
            (
                3,
                7,
                8,
                "this line is indented, but no block begins before it",
                "indent it as the line before, or end that line with ':'",
            )
        ],
    ),
    (
        "model M:\n    input x: [3]\n  return x\n",
        [
            (
                3,
                1,
                3,
                "this line is indented by 2, which fits no block around it",
                "indent it by 4, as its block is",
            )
        ],
    ),
    (
        "model M:\n    input x: [3]\n\treturn x\n",
        [
            (
                3,
                1,
                2,
                "this line's indentation mixes tabs and spaces",
                "indent all lines with spaces only",
            )
        ],
    ),
    ("model M(n=1,):\n    return x\n", [(2, 12, 13, "'x' is not known here", None)]),
    (
        "model M(1):\n    return x\n",
        [(1, 9, 10, "expected ')' or a name after '(', but found '1'", None)],
    ),
    (
        "model M():\n    return relu(x\n\nfn f(x) = (x\n",
        [
            (2, 16, 17, "'(' is never closed", "add the missing ')'"),
            (4, 11, 12, "'(' is never closed", "add the missing ')'"),
        ],
    ),
    (
        "model M() return x\n",
        [
            (
                1,
                11,
                17,
                "expected ':' after ')', but found 'return'",
                "a model's header is model Name(arguments):",
            )
        ],
    ),
    (
        "fn f(x) = \n",
        [(1, 11, 12, "expected a value after '=', but found the end of the line", None)],
    ),
    (
        "fn f(x) = x y\n",
        [
            (
                1,
                13,
                14,
                "expected an operator or the end of the line after 'x', but found 'y'",
                "if x is a function, write x(y)",
            )
        ],
    ),
    (
        "model M():\n    y = x )\n    z = 1 +\n    return w w\n\nfn (x) = 1\n",
        [
            (2, 11, 12, "')' closes nothing", "remove it"),
            (
                3,
                12,
                13,
                "expected a value after '+', but found the end of the line",
                "a line goes on inside brackets: put brackets around the whole expression",
            ),
            (
                4,
                14,
                15,
                "expected an operator, ',' or the end of the line after 'w', but found 'w'",
                "if w is a function, write w(w)",
            ),
            (6, 4, 5, "expected a name after 'fn', but found '('", None),
        ],
    ),
]


@pytest.mark.parametrize(("program", "findings"), PROGRAMS, ids=[p[0] for p in PROGRAMS])
def test_program(program: str, findings: list[Finding]) -> None:
    assert errors(program) == findings
