"""Syntax errors in words: what stands there, what was expected, and the likely mend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lark import Token

from fusegen.errors import Span
from fusegen.frontend.layout import BOUNDARIES, span_of
from fusegen.frontend.report import nearest
from fusegen.frontend.syntax import MAXIMUM_INTEGER


@dataclass(frozen=True)
class SyntaxProblem:
    """One syntax error; `missing_body` says that a header's indented block is not there."""

    message: str
    span: Span
    hint: str | None = None
    missing_body: bool = False


@dataclass(frozen=True)
class _Place:
    """Where the parser stopped: the statement so far, the token that does not fit, the token
    after it, and the kinds of token that would have fitted."""

    statement: tuple[Token, ...]
    token: Token
    following: Token | None
    accepted: frozenset[str]

    @property
    def previous(self) -> Token | None:
        return self.statement[-1] if self.statement else None

    @property
    def first(self) -> Token:
        return self.statement[0] if self.statement else self.token

    def problem(self, message: str, hint: str | None = None) -> SyntaxProblem:
        return SyntaxProblem(message, span_of(self.token), hint)


# Words of other languages that people write here.
_FOREIGN_WORDS = {
    "class": "a model starts with 'model'",
    "def": "a function starts with 'fn'",
    "elif": "write where(condition, a, b)",
    "else": "write where(condition, a, b)",
    "for": "there are no loops: write the steps out, or bind the repeated part in a function",
    "func": "a function starts with 'fn'",
    "function": "a function starts with 'fn'",
    "if": "write where(condition, a, b)",
    "import": "all operations are there without an import",
    "lambda": "define the function at the top of the file with 'fn'",
    "let": "a binding needs no word before it: name = value",
    "while": "there are no loops: write the steps out",
}
_RESERVED = frozenset({"MODEL", "FN", "INPUT", "RETURN", "TRUE", "FALSE", "NONE"})
_RESERVED_OPERATORS = frozenset({"AND", "OR", "NOT"})
_OPERATORS = frozenset(
    {"PLUS", "MINUS", "FACTOR", "POWER", "COMPARATOR", "BAR", "CARET", "AMPERSAND", "AND", "OR"}
)
_WORDS = {
    "_NEWLINE": "the end of the line",
    "_INDENT": "an indented block",
    "NAME": "a name",
    "COLON": "':'",
    "COMMA": "','",
    "EQUAL": "'='",
    "LPAR": "'('",
    "RPAR": "')'",
    "LSQB": "'['",
    "RSQB": "']'",
    "MODEL": "'model'",
    "FN": "'fn'",
}
_BRACKETS = frozenset("()[]")
_CHARACTER_HINTS = {
    "{": "lists have square brackets: [a, b]",
    "}": "lists have square brackets: [a, b]",
    ";": "write one statement a line",
    "!": "write 'not'",
    "?": "write where(condition, a, b)",
    "$": "remove it",
    "\\": "a line goes on inside brackets, or with '|>' at the start of the next",
}


def explain_token(token: Token) -> tuple[str, str | None] | None:
    """Message and hint for a token that is wrong wherever it stands; None for any other."""
    text = str(token)
    if token.type == "NUMBER":
        digits = text.replace("_", "")
        if digits.isdecimal() and (len(digits) > 19 or int(digits) > MAXIMUM_INTEGER):
            return "this number is beyond a 64-bit integer", "write it with a decimal point"
        return None
    if token.type != "BROKEN" or text in _BRACKETS:  # the layout pass has reported brackets
        return None
    if text in "\"'":
        return "this string is not closed on its line", f"add the missing {text}"
    shown = f"'{text}'" if text.isprintable() else f"U+{ord(text):04X}"
    hint = "names are ASCII letters, digits and '_'" if text.isalnum() else None
    return f"the character {shown} has no meaning here", _CHARACTER_HINTS.get(text, hint)


def explain(tokens: Sequence[Token], position: int, accepted: frozenset[str]) -> SyntaxProblem:
    """The error of the token at `position` (the end of the file if past the last), where only the
    kinds of token in `accepted` fit."""
    start = position
    while start > 0 and tokens[start - 1].type not in BOUNDARIES:
        start -= 1
    if position < len(tokens):
        token = tokens[position]
    else:
        line = (tokens[-1].end_line or 1) if tokens else 1
        token = Token("$END", "", line=line, column=1)
    if accepted == {"_INDENT"}:
        return _missing_body(tokens, position)
    following = tokens[position + 1] if position + 1 < len(tokens) else None
    place = _Place(tuple(tokens[start:position]), token, following, accepted)
    for rule in _RULES:
        problem = rule(place)
        if problem is not None:
            return problem
    words = sorted(_WORDS[kind] for kind in accepted if kind in _WORDS)
    return place.problem(f"expected {_either(words)}{_after(place)}, but found {_shown(token)}")


def _either(words: Sequence[str]) -> str:
    """The words as one phrase: `a, b or c`."""
    return " or ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _shown(token: Token) -> str:
    if token.type == "_NEWLINE":
        return "the end of the line"
    if token.type in ("_INDENT", "_DEDENT"):
        return "a change of indentation"
    if token.type == "$END":
        return "the end of the file"
    text = str(token).strip()
    return f"'{text}'" if len(text) <= 40 else f"'{text[:37]}...'"


def _after(place: _Place) -> str:
    return f" after {_shown(place.previous)}" if place.previous is not None else ""


def _missing_body(tokens: Sequence[Token], position: int) -> SyntaxProblem:
    end = position - 1  # the header's line end
    start = end
    while start > 0 and tokens[start - 1].type not in BOUNDARIES:
        start -= 1
    kind = "model" if tokens[start].type == "MODEL" else "function"
    hint = f"indent the {kind}'s statements by four spaces"
    if kind == "function":
        hint += ", or write fn name(x) = expression"
    return SyntaxProblem(
        f"the {kind} has no indented body", span_of(tokens[start]), hint, missing_body=True
    )


def _foreign_word(place: _Place) -> SyntaxProblem | None:
    for token in (place.token, place.previous):
        hint = _FOREIGN_WORDS.get(str(token))
        if token is not None and token.type == "NAME" and hint is not None:
            return SyntaxProblem(f"'{token}' is not a word of this language", span_of(token), hint)
    return None


def _indentation(place: _Place) -> SyntaxProblem | None:
    if place.token.type != "_INDENT":
        return None
    return place.problem(
        "this line is indented, but no block begins before it",
        "indent it as the line before, or end that line with ':'",
    )


def _outside_definition(place: _Place) -> SyntaxProblem | None:
    if place.statement or not {"MODEL", "FN"} <= place.accepted:
        return None
    word = nearest(str(place.token), ("model", "fn")) if place.token.type == "NAME" else None
    hint = word or "indent the statements of a model under its header: model Name(...):"
    return place.problem(
        f"expected 'model' or 'fn' at the start of a definition, but found {_shown(place.token)}",
        hint,
    )


def _nested_definition(place: _Place) -> SyntaxProblem | None:
    if place.statement or place.token.type not in ("MODEL", "FN"):
        return None
    kind = "model" if place.token.type == "MODEL" else "function"
    return place.problem(
        f"a {kind} cannot be defined inside another definition",
        "move it to the start of a line at the top of the file, with no indentation",
    )


def _reserved_word(place: _Place) -> SyntaxProblem | None:
    words = _RESERVED | _RESERVED_OPERATORS
    as_name = place.token.type in words and "NAME" in place.accepted
    bound = place.token.type in ("EQUAL", "COMMA") and place.first.type in _RESERVED
    token = place.token if as_name else place.first
    if not (as_name or (bound and len(place.statement) == 1)) or not place.statement:
        return None
    return SyntaxProblem(
        f"'{token}' is a word of the language and cannot be a name here",
        span_of(token),
        f"choose another name, such as '{token}_'",
    )


def _statement_start(place: _Place) -> SyntaxProblem | None:
    if place.statement or "RETURN" not in place.accepted:
        return None
    return place.problem(
        "a statement starts with 'input', 'return' or the name it binds, "
        f"but found {_shown(place.token)}"
    )


def _binding(place: _Place) -> SyntaxProblem | None:
    if place.accepted - {"EQUAL", "COMMA"} or place.first.type != "NAME":
        return None
    name = str(place.first)
    if place.token.type == "COLON":
        hint = f"an input is declared with: input {name}: [...]"
    elif place.token.type in _OPERATORS and place.following and place.following.type == "EQUAL":
        hint = f"a name is bound once: write new_name = {name} {place.token} ..."
    elif place.token.type == "NAME" and (word := nearest(name, ("input", "return"))):
        hint = word
    elif name == "self":
        hint = "a layer is bound to its name alone, without 'self.'"
    else:
        hint = "a statement is name = value, or return value"
    return place.problem(f"expected '='{_after(place)}, but found {_shown(place.token)}", hint)


def _input(place: _Place) -> SyntaxProblem | None:
    if place.first.type != "INPUT" or ("NAME" in place.accepted and "LSQB" not in place.accepted):
        return None
    if not place.accepted & {"COLON", "LSQB"} or "PLUS" in place.accepted:
        return None
    expected = "':'" if "COLON" in place.accepted else "'['"
    return place.problem(
        f"expected {expected}{_after(place)}, but found {_shown(place.token)}",
        "an input is declared with: input name: [sizes], or input name: dtype[sizes]",
    )


def _one_input_a_line(place: _Place) -> SyntaxProblem | None:
    if place.first.type != "INPUT" or place.token.type != "COMMA" or "COMMA" in place.accepted:
        return None
    return place.problem(
        f"expected the end of the line{_after(place)}, but found ','",
        "declare each input on a line of its own",
    )


def _annotation(place: _Place) -> SyntaxProblem | None:
    if place.first.type not in ("MODEL", "FN") or place.token.type != "COLON":
        return None
    if "EQUAL" not in place.accepted or "RPAR" not in place.accepted:
        return None
    return place.problem(
        f"an argument has no type here, but found ':'{_after(place)}",
        "write its name, or name=default",
    )


def _header(place: _Place) -> SyntaxProblem | None:
    if place.first.type not in ("MODEL", "FN") or "COLON" not in place.accepted:
        return None
    hint = "a model's header is model Name(arguments):"
    expected = "':'"
    if "EQUAL" in place.accepted:
        hint = "a function is fn name(x) = expression, or fn name(x): and an indented block"
        expected = "'=' or ':'"
    return place.problem(
        f"expected {expected}{_after(place)}, but found {_shown(place.token)}", hint
    )


def _missing_expression(place: _Place) -> SyntaxProblem | None:
    if not {"NAME", "LPAR"} <= place.accepted:
        return None
    hint = None
    pair = f"{place.previous or ''}{place.token}"
    if pair in ("&&", "||"):
        hint = f"write '{'and' if pair == '&&' else 'or'}'"
    elif place.previous is not None and place.previous.type in ("EQUAL", "COMPARATOR"):
        hint = "equality is written '=='" if place.token.type == "EQUAL" else None
    elif place.first.type == "INPUT" and place.token == "...":
        hint = "a model has a fixed number of dims: name each, as in x: [batch, time, 64]"
    elif place.token.type == "_NEWLINE" and place.previous is not None:
        if place.previous.type in _OPERATORS:
            hint = "a line goes on inside brackets: put brackets around the whole expression"
        elif place.previous.type == "_PIPE":
            hint = "a pipe goes at the start of the next line, before its function"
    what = "a function or layer" if place.previous and place.previous.type == "_PIPE" else "a value"
    return place.problem(f"expected {what}{_after(place)}, but found {_shown(place.token)}", hint)


def _after_pipe(place: _Place) -> SyntaxProblem | None:
    if place.token.type not in _OPERATORS or not _in_pipe(place.statement):
        return None
    return place.problem(
        f"'{place.token}' cannot follow a pipe, whose right side is one function or layer",
        f"put the pipe in brackets: (x |> f) {place.token} y",
    )


def _in_pipe(statement: tuple[Token, ...]) -> bool:
    """Whether the last open bracket, or the statement, has a pipe in it so far."""
    depth = 0
    for token in reversed(statement):
        if token.type in ("RPAR", "RSQB"):
            depth += 1
        elif token.type in ("LPAR", "LSQB"):
            if depth == 0:
                return False
            depth -= 1
        elif token.type == "_PIPE" and depth == 0:
            return True
    return False


def _after_expression(place: _Place) -> SyntaxProblem | None:
    if place.previous is None or ("PLUS" not in place.accepted and "_PIPE" not in place.accepted):
        return None
    closing = [kind for kind in ("COMMA", "RPAR", "RSQB", "_NEWLINE") if kind in place.accepted]
    words = ["an operator", *(_WORDS[kind] for kind in closing)]
    hint = None
    if place.token.type == "EQUAL" and str(place.following) == ">":
        hint = "a pipe is written '|>'"
    elif place.token.type == "EQUAL":
        hint = "equality is written '=='"
    elif place.previous.type == "NUMBER" and place.token.type == "NAME":
        hint = f"write {place.previous} * {place.token}"
    elif place.previous.type == "NAME" and place.token.type == "NAME":
        hint = f"if {place.previous} is a function, write {place.previous}({place.token})"
    return place.problem(
        f"expected {_either(words)}{_after(place)}, but found {_shown(place.token)}", hint
    )


_RULES: tuple[Callable[[_Place], SyntaxProblem | None], ...] = (
    _foreign_word,
    _indentation,
    _outside_definition,
    _nested_definition,
    _reserved_word,
    _statement_start,
    _binding,
    _one_input_a_line,
    _input,
    _annotation,
    _header,
    _missing_expression,
    _after_pipe,
    _after_expression,
)
