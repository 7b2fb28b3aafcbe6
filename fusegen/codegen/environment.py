"""The Jinja2 environment of all skeletons."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from jinja2 import Environment, FunctionLoader, StrictUndefined

from fusegen import resources

LINE = 110
"""The width that lists in the emitted text keep to."""


@cache
def environment() -> Environment:
    """Templates from the package, undefined names refused, block lines leaving no trace."""
    made = Environment(
        loader=FunctionLoader(resources.template),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    made.filters["listed"] = listed
    return made


def listed(items: Sequence[str], indent: int, separator: str = ", ") -> str:
    """Items in lines that end before `LINE`, those after the first indented."""
    lines, room = [""], LINE - indent
    for position, item in enumerate(items):
        text = item + (separator if position + 1 < len(items) else "")
        if lines[-1] and len(lines[-1] + text.rstrip()) > room:
            lines.append("")
        lines[-1] += text
    return f"\n{' ' * indent}".join(line.rstrip() for line in lines)


# Where a long line may go on in the next one, the best places first.
BREAKS = (" ? ", " : ", " + ", " * ")


def _folded(line: str) -> list[str]:
    """A statement in lines of at most `LINE` columns where it has an operator to break it at."""
    lines = []
    indent = len(line) - len(line.lstrip()) + 4
    while len(line) > LINE and not re.match(r" *(#|//)", line) and '"' not in line:
        cuts = (line.rfind(sign, indent + 4, LINE) for sign in BREAKS)
        cut = next((cut for cut in cuts if cut > 0), 0)
        if not cut:
            break
        lines.append(line[:cut])
        line = " " * indent + line[cut + 1 :]
    return [*lines, line]


def tidy(text: str) -> str:
    """Without trailing spaces and runs of empty lines, which slots left empty leave behind."""
    text = "\n".join(part for line in text.split("\n") for part in _folded(line))
    text = re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^ +#", "#", text, flags=re.MULTILINE)
    text = re.sub(r"\n{3,}", "\n\n", text)
    text = re.sub(r"\{\n\n", "{\n", text)
    text = re.sub(r"\n\n( *\})", r"\n\1", text)
    return text.strip() + "\n"
