"""Collecting what is wrong with a program, so that one run tells as much as possible."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from fusegen.errors import Diagnostic, Severity, SourceError, Span
from fusegen.frontend.source import Source

MAXIMUM_DIAGNOSTICS = 100


class Report:
    """The diagnostics found so far in one source; each is kept once, however often it is met."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._found: dict[Diagnostic, None] = {}

    def error(self, message: str, span: Span, hint: str | None = None) -> None:
        """Note something that stops the compilation."""
        self._add(Diagnostic(Severity.ERROR, message, span, hint))

    def warning(self, message: str, span: Span, hint: str | None = None) -> None:
        """Note something that is allowed but likely a mistake."""
        self._add(Diagnostic(Severity.WARNING, message, span, hint))

    @property
    def failed(self) -> bool:
        """Whether there is an error among the diagnostics."""
        return any(found.severity is Severity.ERROR for found in self._found)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Everything found, in the order of the source."""
        return tuple(sorted(self._found, key=_position))

    def check(self) -> None:
        """Raise SourceError with everything found if there is an error."""
        if self.failed:
            raise SourceError(self._source.filename, self._source.text, self.diagnostics)

    def _add(self, diagnostic: Diagnostic) -> None:
        if len(self._found) < MAXIMUM_DIAGNOSTICS:
            self._found.setdefault(diagnostic)


def _position(diagnostic: Diagnostic) -> tuple[int, int]:
    span = diagnostic.span
    return (span.line, span.column) if span else (0, 0)


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The hint `did you mean '...'?` for a misspelt name, if one of `names` is close to it."""
    candidates = sorted(set(names))
    if len(name) < 3:  # everything short is close to it
        return None
    found = difflib.get_close_matches(name, candidates, n=1, cutoff=0.7)
    if not found:  # `Relu` for `ReLU`
        found = [other for other in candidates if other.lower() == name.lower()]
    return f"did you mean '{found[0]}'?" if found else None


def listing(names: Iterable[str]) -> str:
    """The names in quotes with commas between, for a message."""
    return ", ".join(f"'{name}'" for name in names)
