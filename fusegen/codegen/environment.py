"""The Jinja2 environment of all skeletons."""

from __future__ import annotations

import re
from functools import cache

from jinja2 import Environment, FunctionLoader, StrictUndefined

from fusegen import resources


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
    return made


def tidy(text: str) -> str:
    """Without trailing spaces and runs of empty lines, which slots left empty leave behind."""
    text = re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^ +#", "#", text, flags=re.MULTILINE)
    text = re.sub(r"\n{3,}", "\n\n", text)
    text = re.sub(r"\{\n\n", "{\n", text)
    text = re.sub(r"\n\n( *\})", r"\n\1", text)
    return text.strip() + "\n"
