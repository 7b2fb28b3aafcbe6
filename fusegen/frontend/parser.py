"""From text to syntax tree, going on after a syntax error to find the others.

The parser is fed token by token. Where a token does not fit, the statement it stands in is
replaced by the one token BROKEN, which the grammar takes for a statement, and the parse starts
over: simple, and as no more than a few errors are worth reading, fast enough.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedToken

from fusegen import resources
from fusegen.errors import FusegenError
from fusegen.frontend.expectations import SyntaxProblem, explain, explain_token
from fusegen.frontend.layout import BOUNDARIES, Layout, span_of
from fusegen.frontend.report import Report
from fusegen.frontend.source import MAXIMUM_BYTES, Source
from fusegen.frontend.syntax import Definition, definitions

MAXIMUM_SYNTAX_ERRORS = 20

_DEFINITION_WORDS = frozenset({"MODEL", "FN"})


@functools.cache
def _grammar() -> Lark:
    return Lark(
        resources.grammar("fuse.lark"),
        start="program",
        parser="lalr",
        lexer="basic",
        propagate_positions=True,
        maybe_placeholders=True,
    )


def parse_definitions(source: Source) -> tuple[Definition, ...]:
    """The models and functions of a program, in source order.

    Raises SourceError with every syntax error found, and FusegenError for a text over 1 MiB.
    """
    if len(source.text) > MAXIMUM_BYTES:
        raise FusegenError(f"'{source.filename}' is larger than 1 MiB, which no program needs")
    report = Report(source)
    tokens = Layout(report).apply(_grammar().lex(source.text))
    tree = _parse(_without_bad_tokens(tokens, report), report)
    report.check()
    assert tree is not None
    return definitions(tree)


def _parse(tokens: list[Token], report: Report) -> Tree[Token] | None:
    for _ in range(MAXIMUM_SYNTAX_ERRORS):
        parser = _grammar().parse_interactive()
        position = 0
        try:
            for position, token in enumerate(tokens):  # noqa: B007  (read where it fails)
                parser.feed_token(token)
            position = len(tokens)
            tree: Tree[Token] = parser.feed_eof(tokens[-1] if tokens else None)  # type: ignore[no-untyped-call]
            return tree
        except UnexpectedToken:
            accepted = frozenset(parser.accepts())  # type: ignore[no-untyped-call]
        problem = explain(tokens, position, accepted)
        report.error(problem.message, problem.span, problem.hint)
        tokens = _recover(tokens, position, problem)
    return None


def _recover(tokens: list[Token], position: int, problem: SyntaxProblem) -> list[Token]:
    """The tokens without what could not be read."""
    if problem.missing_body:
        header = _statement_start(tokens, position - 1)
        end = next(
            (i for i in range(position, len(tokens)) if _starts_definition(tokens, i)), len(tokens)
        )
        return [*tokens[:header], _broken(tokens[header]), tokens[position - 1], *tokens[end:]]
    if position == len(tokens) or tokens[position].type == "_DEDENT":
        return tokens[:position] + tokens[position + 1 :]
    if tokens[position].type == "_INDENT":
        end = _matching_dedent(tokens, position)
        return tokens[:position] + tokens[position + 1 : end] + tokens[end + 1 :]
    return _break_statement(tokens, position)


def _break_statement(tokens: list[Token], position: int) -> list[Token]:
    """The tokens with the statement around `position` replaced by BROKEN."""
    start = _statement_start(tokens, position)
    end = next(i for i in range(position, len(tokens)) if tokens[i].type == "_NEWLINE")
    return [*tokens[:start], _broken(tokens[start]), *tokens[end:]]


def _statement_start(tokens: list[Token], position: int) -> int:
    while position > 0 and tokens[position - 1].type not in BOUNDARIES:
        position -= 1
    return position


def _starts_definition(tokens: list[Token], position: int) -> bool:
    return (
        tokens[position].type in _DEFINITION_WORDS
        and tokens[position - 1].type in BOUNDARIES
        and tokens[position].column == 1
    )


def _matching_dedent(tokens: list[Token], position: int) -> int:
    depth = 0
    for index in range(position, len(tokens)):
        depth += {"_INDENT": 1, "_DEDENT": -1}.get(tokens[index].type, 0)
        if depth == 0:
            return index
    raise AssertionError("the layout closes every block")


def _broken(token: Token) -> Token:
    return Token.new_borrow_pos("BROKEN", str(token), token)


def _without_bad_tokens(tokens: Iterable[Token], report: Report) -> list[Token]:
    """Replace each statement with a token that fits nowhere by BROKEN, with one error for it."""
    kept: list[Token] = []
    broken = False
    for token in tokens:
        if token.type in BOUNDARIES:
            broken = False
        elif broken:
            continue
        else:
            problem = explain_token(token)
            if problem is not None:
                report.error(problem[0], span_of(token), problem[1])
            if problem is not None or token.type == "BROKEN":
                start = _statement_start(kept, len(kept))
                token = _broken(token)
                del kept[start:]
                broken = True
        kept.append(token)
    return kept
