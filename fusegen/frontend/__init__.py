"""The frontend: from the text of a `.fuse` file to a graph, with errors people can act on."""

from __future__ import annotations

from fusegen.frontend.elaborate import Elaboration, elaborate
from fusegen.frontend.program import Program, parse
from fusegen.frontend.source import Source

__all__ = ["Elaboration", "Program", "Source", "elaborate", "parse"]
