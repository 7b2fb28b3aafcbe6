"""The terminal: coloured where there is one, plain in a pipe, and never a broken line of source."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from rich.console import Console
from rich.progress import Progress


def stdout() -> Console:
    """The console for what was asked for."""
    return Console(highlight=False, soft_wrap=True, emoji=False, markup=False)


def stderr() -> Console:
    """The console for errors, warnings and progress."""
    return Console(stderr=True, highlight=False, soft_wrap=True, emoji=False, markup=False)


class Result(Protocol):
    """What a command finds, for programs and for people."""

    def as_json(self) -> dict[str, Any]: ...

    def as_text(self) -> str: ...


def show(result: Result, *, as_json: bool) -> None:
    """Print what a command was asked for."""
    text = json.dumps(result.as_json(), indent=2) if as_json else result.as_text()
    stdout().print(text)


@contextmanager
def working(text: str) -> Iterator[None]:
    """Show `text` on a terminal while the body runs; in a pipe, show nothing."""
    console = stderr()
    if not console.is_terminal:
        yield
        return
    with console.status(text):
        yield


@contextmanager
def counting(text: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar on a terminal while the body runs, which is told how many of `total` are done; in
    a pipe, show nothing."""
    console = stderr()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(text, total=total)
        yield lambda done: progress.update(task, completed=done)
