"""The command line. Everything heavy is imported by the command that needs it."""

from __future__ import annotations

from fusegen.cli.main import main

__all__ = ["main"]
