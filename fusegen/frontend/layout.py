"""Layout: which line ends count, and where blocks begin and end.

Takes the lexer's tokens and gives those the grammar wants: line ends inside brackets are dropped,
and indentation becomes _INDENT and _DEDENT.
"""

from __future__ import annotations

from collections.abc import Iterable

from lark import Token

from fusegen.errors import Span
from fusegen.frontend.report import Report

_CLOSING = {"(": ")", "[": "]"}
# The tokens between two statements.
BOUNDARIES = frozenset({"_NEWLINE", "_INDENT", "_DEDENT"})
# Words that only start a statement or a definition: inside brackets they tell that one is missing.
_STARTERS = frozenset({"MODEL", "FN", "INPUT", "RETURN"})


def span_of(token: Token) -> Span:
    """Where a token stands; a line end is shown as the column after the line's last token."""
    line, column = token.line or 1, token.column or 1
    if token.type == "_PIPE":  # it carries the line ends and comments before it
        end_line, end = token.end_line or line, token.end_column or column
        return Span(end_line, end - 2, end_line, end)
    return Span(line, column, line, column + max(len(str(token).split("\n")[0]), 1))


def _mark(kind: str, line: int, column: int) -> Token:
    """A token of no width."""
    return Token(kind, "", line=line, column=column, end_line=line, end_column=column)


class Layout:
    """One pass over a program's tokens; errors of brackets and indentation go to `report`."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._tokens: list[Token] = []
        self._indentation = [""]
        self._brackets: list[Token] = []
        self._mixed = False

    def apply(self, tokens: Iterable[Token]) -> list[Token]:
        """The tokens with line ends, _INDENT and _DEDENT where the grammar wants them."""
        skipped: Token | None = None  # a line end inside brackets
        for token in tokens:
            if token.type != "_NEWLINE":
                if skipped is not None and token.type in _STARTERS:
                    self._report_unclosed()
                    self._end_line(skipped)
                skipped = None
                self._tokens.append(self._match_brackets(token))
            elif self._brackets:
                skipped = token
            else:
                self._end_line(token)
        self._report_unclosed()
        self._end_file()
        return self._tokens

    def _match_brackets(self, token: Token) -> Token:
        """The token itself, or BROKEN for a closing bracket that does not fit."""
        if token.type in ("LPAR", "LSQB"):
            self._brackets.append(token)
            return token
        if token.type not in ("RPAR", "RSQB"):
            return token
        if not self._brackets:
            self._report.error(f"'{token}' closes nothing", span_of(token), "remove it")
            return Token.new_borrow_pos("BROKEN", str(token), token)
        opening = self._brackets.pop()
        if _CLOSING[opening] == token:
            return token
        self._report.error(
            f"'{token}' does not close the '{opening}' of line {opening.line}, "
            f"column {opening.column}",
            span_of(token),
            f"write '{_CLOSING[opening]}'",
        )
        return Token.new_borrow_pos("BROKEN", str(token), token)

    def _report_unclosed(self) -> None:
        if not self._brackets:
            return
        opening = self._brackets[0]
        self._report.error(
            f"'{opening}' is never closed",
            span_of(opening),
            f"add the missing '{_CLOSING[opening]}'",
        )
        self._brackets.clear()
        self._tokens.append(Token.new_borrow_pos("BROKEN", str(opening), opening))

    def _end_line(self, newline: Token) -> None:
        """End the statement, if one has begun, and open or close blocks for the next line."""
        self._end_statement(newline)
        text = str(newline).rpartition("\n")[2]
        self._change_block("" if "#" in text else text, newline)  # a comment there ends the file

    def _end_statement(self, newline: Token) -> None:
        if self._tokens and self._tokens[-1].type not in BOUNDARIES:
            self._tokens.append(newline)

    def _end_file(self) -> None:
        if self._tokens:
            last = self._tokens[-1]
            end = _mark("_NEWLINE", last.end_line or 1, last.end_column or 1)
            self._end_statement(end)
            self._change_block("", end)

    def _change_block(self, indentation: str, newline: Token) -> None:
        line = newline.end_line or newline.line or 1
        place = Span(line, 1, line, len(indentation) + 1)
        if len({*"".join(self._indentation), *indentation}) > 1:
            if not self._mixed:
                self._report.error(
                    "this line's indentation mixes tabs and spaces",
                    place,
                    "indent all lines with spaces only",
                )
            self._mixed = True  # told once; such a line counts as part of the block before it
            return
        column = len(indentation) + 1
        if len(indentation) > len(self._indentation[-1]):
            self._indentation.append(indentation)
            self._tokens.append(_mark("_INDENT", line, column))
            return
        while len(self._indentation) > 1 and len(indentation) <= len(self._indentation[-2]):
            self._indentation.pop()
            self._tokens.append(_mark("_DEDENT", line, column))
        if len(indentation) != len(self._indentation[-1]):
            self._report.error(
                f"this line is indented by {len(indentation)}, which fits no block around it",
                place,
                f"indent it by {len(self._indentation[-1])}, as its block is",
            )
