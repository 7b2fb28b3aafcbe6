"""What can go wrong between generated text and a loaded module."""

from __future__ import annotations

from pathlib import Path

from fusegen.errors import FusegenError


class ToolchainError(FusegenError):
    """A compiler, ninja or torch is missing or cannot be used on this machine."""


class CacheError(FusegenError):
    """The cache folder cannot be read, written or locked."""


class BuildError(FusegenError):
    """A compiler or the linker refused the sources.

    `summary` has their first errors, `log` is the file with all that they said.
    """

    def __init__(self, summary: str, log: Path, hint: str | None = None) -> None:
        super().__init__(f"{summary}\n  full log: {log}", hint)
        self.summary = summary
        self.log = log
