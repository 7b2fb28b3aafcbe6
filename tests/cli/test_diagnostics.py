"""How diagnostics look: the place, the line, the marks under it, the hint."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from fusegen.cli.diagnostics import Excerpt, excerpt, print_diagnostics, print_error
from fusegen.errors import Diagnostic, FusegenError, Severity, Span

SOURCE = "model M(n=4):\n    input x: [batch, n]\n    return x |> sofmax\n"


def span(column: int, end_column: int, line: int = 1, end_line: int | None = None) -> Span:
    return Span(line, column, end_line or line, end_column)


def test_one_error(capsys: pytest.CaptureFixture[str]) -> None:
    finding = Diagnostic(
        Severity.ERROR,
        "there is no operation 'sofmax'",
        span(17, 23, line=3),
        hint="did you mean 'softmax'?",
    )
    print_diagnostics("model.fuse", SOURCE, (finding,))
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == (
        "model.fuse:3:17: error: there is no operation 'sofmax'\n"
        "    3 |     return x |> sofmax\n"
        "      |                 ^^^^^^\n"
        "  hint: did you mean 'softmax'?\n"
    )


def test_several_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    findings = (
        Diagnostic(Severity.WARNING, "x is never used", span(11, 12, line=2)),
        Diagnostic(Severity.ERROR, "first"),
        Diagnostic(Severity.ERROR, "second", span(1, 2, line=99)),
    )
    print_diagnostics("model.fuse", SOURCE, findings)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "model.fuse:2:11: warning: x is never used"
    assert lines[-3:] == [
        "model.fuse: error: first",
        "model.fuse:99:1: error: second",
        "model.fuse: 2 errors, 1 warning",
    ]


def test_message_is_not_markup(capsys: pytest.CaptureFixture[str]) -> None:
    """Square brackets and colons are the language's, not the terminal library's."""
    print_error(FusegenError("x has shape [batch, 4] :smile: [red]", hint="use [/bold]"))
    assert capsys.readouterr().err == (
        "error: x has shape [batch, 4] :smile: [red]\n  hint: use [/bold]\n"
    )


def test_long_messages_are_not_wrapped(capsys: pytest.CaptureFixture[str]) -> None:
    print_error(FusegenError("word " * 100))
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    ("line", "where", "text", "marks"),
    [
        ("return x", span(8, 9), "return x", "       ^"),
        ("\treturn\tx", span(9, 10), "    return  x", "            ^"),
        ("ab 日本 x", span(4, 6), "ab 日本 x", "   ^^^^"),
        ("日本 x", span(4, 5), "日本 x", "     ^"),
        ("a\x1b[31mb", span(1, 2), "a�[31mb", "^"),
        ("x", span(2, 2), "x", " ^"),
        ("", span(1, 1), "", "^"),
        ("  f(a,", span(3, 9, end_line=4), "  f(a,", "  ^^^^"),
    ],
    ids=["plain", "tabs", "wide", "after wide", "control", "end", "empty", "several lines"],
)
def test_excerpt(line: str, where: Span, text: str, marks: str) -> None:
    assert excerpt(line, where, width=60) == Excerpt(text, marks)


def test_middle_of_a_long_line() -> None:
    line = "a" * 500_000 + "WRONG" + "b" * 500_000
    shown = excerpt(line, span(500_001, 500_006), width=40)
    assert cell_len(shown.text) == 40
    assert shown.text.startswith("…a")
    assert shown.text.endswith("b…")
    assert shown.text[shown.marks.index("^") : shown.marks.rindex("^") + 1] == "WRONG"


def test_tabs_do_not_push_the_span_out() -> None:
    shown = excerpt("\t" * 30 + "x", span(31, 32), width=40)
    assert shown.text[shown.marks.index("^")] == "x"


TEXT = st.text(st.sampled_from("ab \t日é́\x00…"), max_size=200)


@given(TEXT, st.integers(1, 210), st.integers(0, 50), st.integers(20, 80))
def test_excerpt_fits_and_marks_what_it_shows(
    line: str, column: int, length: int, width: int
) -> None:
    shown = excerpt(line, span(column, column + length), width)
    assert cell_len(shown.text) <= width
    assert cell_len(shown.marks) <= width + 1
    assert shown.marks.strip() == "^" * len(shown.marks.strip()) != ""
