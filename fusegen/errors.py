"""What can go wrong, in the user's terms: diagnostics, and the exceptions that carry them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class FusegenError(Exception):
    """Base of every error that is the user's to mend; its text is one clear sentence, and a hint
    says how."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


@dataclass(frozen=True)
class Span:
    """A stretch of source text: lines and columns count from 1, the end column is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


class Severity(Enum):
    """How much a diagnostic matters: an error stops the compilation, a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Diagnostic:
    """One finding in a source file: what is wrong, where, and the likely mend."""

    severity: Severity
    message: str
    span: Span | None = None
    hint: str | None = None


class SourceError(FusegenError):
    """A `.fuse` file that does not compile, with every diagnostic found in it.

    `diagnostics` holds warnings too, in source order; `source` is the text they point into and
    `filename` the name to show for it.
    """

    def __init__(self, filename: str, source: str, diagnostics: tuple[Diagnostic, ...]) -> None:
        count = sum(d.severity is Severity.ERROR for d in diagnostics)
        super().__init__(f"{filename}: {count} error{'s' if count != 1 else ''}")
        self.filename = filename
        self.source = source
        self.diagnostics = diagnostics

    def __str__(self) -> str:
        return "\n".join(self._text(diagnostic) for diagnostic in self.diagnostics)

    def _text(self, diagnostic: Diagnostic) -> str:
        span = diagnostic.span
        place = f"{self.filename}:{span.line}:{span.column}" if span else self.filename
        text = f"{place}: {diagnostic.severity.value}: {diagnostic.message}"
        return f"{text}\n  hint: {diagnostic.hint}" if diagnostic.hint else text
