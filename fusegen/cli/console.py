"""The terminal: coloured where there is one, plain in a pipe, and never a broken line of source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console


def stdout() -> Console:
    """The console for what was asked for."""
    return Console(highlight=False, soft_wrap=True, emoji=False, markup=False)


def stderr() -> Console:
    """The console for errors, warnings and progress."""
    return Console(stderr=True, highlight=False, soft_wrap=True, emoji=False, markup=False)


@contextmanager
def working(text: str) -> Iterator[None]:
    """Show `text` on a terminal while the body runs; in a pipe, show nothing."""
    console = stderr()
    if not console.is_terminal:
        yield
        return
    with console.status(text):
        yield
