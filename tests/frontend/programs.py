"""Short ways to write programs in tests."""

from __future__ import annotations

import textwrap

from fusegen.errors import Diagnostic, Severity, SourceError
from fusegen.frontend import Elaboration, Source, elaborate, parse

Finding = tuple[int, int, int, str, str | None]


def elaborated(text: str, **options: object) -> Elaboration:
    """The elaboration of a program, dedented."""
    return elaborate(parse(Source("model.fuse", textwrap.dedent(text).lstrip("\n"))), **options)  # type: ignore[arg-type]


def model(body: str, header: str = "model M(n=8):", after: str = "") -> str:
    """A program with one model, whose body starts in line 2, column 5; `after` follows it."""
    lines = textwrap.dedent(body).strip("\n").split("\n")
    return "\n".join([header, *(f"    {line}" if line else "" for line in lines), after])


def errors(text: str, **options: object) -> list[Finding]:
    """Line, columns, message and hint of every error in a program; none if it is right."""
    try:
        elaborate(parse(Source("model.fuse", text)), **options)  # type: ignore[arg-type]
    except SourceError as failure:
        return _findings(failure.diagnostics, Severity.ERROR)
    return []


def warnings(text: str, **options: object) -> list[Finding]:
    """Line, columns, message and hint of every warning in a program without errors."""
    found = elaborate(parse(Source("model.fuse", text)), **options).warnings  # type: ignore[arg-type]
    return _findings(found, Severity.WARNING)


def _findings(diagnostics: tuple[Diagnostic, ...], severity: Severity) -> list[Finding]:
    findings: list[Finding] = []
    for diagnostic in diagnostics:
        if diagnostic.severity is severity:
            span = diagnostic.span
            assert span is not None and (span.line, span.column) <= (span.end_line, span.end_column)
            findings.append(
                (span.line, span.column, span.end_column, diagnostic.message, diagnostic.hint)
            )
    return findings
