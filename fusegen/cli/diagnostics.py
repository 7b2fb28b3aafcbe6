"""Shows diagnostics as a person reads them: the place, the source line with the span underlined,
and the hint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from fusegen.cli import console
from fusegen.errors import Diagnostic, FusegenError, Severity, Span

TAB_WIDTH = 4
PLAIN_WIDTH = 100
"""Columns of a source line to show where the output is not a terminal."""
CUT = "…"

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow"}


@dataclass(frozen=True)
class Excerpt:
    """A source line as it is shown, and the line under it that marks the span."""

    text: str
    marks: str


def print_error(error: FusegenError) -> None:
    """Write an error that has no place in a source file to stderr."""
    message = Text.assemble(("error: ", _STYLES[Severity.ERROR]), error.message)
    console.stderr().print(_with_hint(message, error.hint))


def print_diagnostics(filename: str, source: str, diagnostics: Sequence[Diagnostic]) -> None:
    """Write diagnostics about `source` to stderr, in their order, with a count of several."""
    output = console.stderr()
    # Not splitlines(), which also breaks at form feeds and such: spans count line feeds only.
    lines = [line.rstrip("\r") for line in source.split("\n")]
    for diagnostic in diagnostics:
        output.print(_rendered(filename, lines, diagnostic, _width(output)))
    if len(diagnostics) > 1:
        output.print(Text(f"{filename}: {_count(diagnostics)}"))


def _rendered(filename: str, lines: Sequence[str], diagnostic: Diagnostic, width: int) -> Text:
    span = diagnostic.span
    place = f"{filename}:{span.line}:{span.column}: " if span else f"{filename}: "
    style = _STYLES[diagnostic.severity]
    text = Text.assemble(
        (place, "bold"), (f"{diagnostic.severity.value}: ", style), diagnostic.message
    )
    if span and span.line <= len(lines):
        number = f"{span.line:5} | "
        shown = excerpt(lines[span.line - 1], span, max(20, width - len(number)))
        margin = " | ".rjust(len(number))
        text.append(f"\n{number}", "blue").append(shown.text)
        text.append(f"\n{margin}", "blue").append(shown.marks, style)
    return _with_hint(text, diagnostic.hint)


def _with_hint(text: Text, hint: str | None) -> Text:
    if hint:
        text.append("\n  hint: ", "bold").append(hint)
    return text


def _width(output: Console) -> int:
    return output.width if output.is_terminal else PLAIN_WIDTH


def _count(diagnostics: Sequence[Diagnostic]) -> str:
    counts = ((severity, sum(d.severity is severity for d in diagnostics)) for severity in Severity)
    return ", ".join(
        f"{count} {severity.value}{'s' if count > 1 else ''}" for severity, count in counts if count
    )


def excerpt(line: str, span: Span, width: int) -> Excerpt:
    """The part of `line` around `span`'s start that fits `width` columns, and the marks under it.

    Columns are counted as a terminal shows them: tabs are spread, wide characters take two, and
    characters that would move the cursor are replaced. A span that goes on in later lines is
    marked to the end of this one; an empty span gets one mark.
    """
    start = min(span.column - 1, len(line))
    end = min(span.end_column - 1, len(line)) if span.end_line == span.line else len(line)
    # Lines may be millions of characters long; what is farther away than this cannot be shown.
    low, high = max(0, start - 2 * width), start + 2 * width
    cells = list(_cells(line[low:high]))
    first = 0
    if low > 0 or high < len(line) or _columns(cells) > width:
        before_span = list(_fitting(cells[: start - low][::-1], width // 3))
        first = start - low - len(before_span)
    shown = list(_fitting(cells[first:], width - 2 * len(CUT)))
    before = CUT if low + first > 0 else ""
    after = CUT if low + first + len(shown) < len(line) else ""
    margin = len(before) + _columns(cells[first : start - low])
    marked = _columns(shown[start - low - first : end - low - first])
    return Excerpt(f"{before}{''.join(shown)}{after}".rstrip(), " " * margin + "^" * max(1, marked))


def _cells(text: str) -> Iterator[str]:
    """Each character of `text` as the terminal shows it."""
    column = 0
    for character in text:
        if character == "\t":
            cell = " " * (TAB_WIDTH - column % TAB_WIDTH)
        elif character.isprintable():
            cell = character
        else:
            cell = "�"
        column += cell_len(cell)
        yield cell


def _columns(cells: Sequence[str]) -> int:
    return sum(map(cell_len, cells))


def _fitting(cells: Sequence[str], room: int) -> Iterator[str]:
    """The first of `cells` that together take at most `room` columns."""
    used = 0
    for cell in cells:
        used += cell_len(cell)
        if used > room:
            return
        yield cell
