"""The language reference's tables of functions and layers, written from the records.

`python -m fusegen.ops.reference docs/language.md` renews the part of the page between its markers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from fusegen.ops.record import REQUIRED, Parameter
from fusegen.ops.registry import LAYERS, OPERATORS, SECTIONS, UNARY_OPERATORS
from fusegen.ops.twin import literal

BEGIN = "<!-- operations:begin -->"
END = "<!-- operations:end -->"


def signature(name: str, parameters: Sequence[Parameter]) -> str:
    """A call as Python would declare it: `softmax(input, dim, dtype=None)`."""
    return f"{name}({', '.join(_declaration(parameter) for parameter in parameters)})"


def tables() -> str:
    """Every operator, function and layer as markdown."""
    parts = [
        "### Operators",
        _table(("Operator", "Function"), _operators()),
        "### Functions",
    ]
    for title, functions in SECTIONS.items():
        rows = ((f"`{signature(f.name, f.parameters)}`", f.summary) for f in functions)
        parts += [f"#### {title}", _table(("Function", "Result"), rows)]
    layers = ((f"`{signature(n, layer.parameters)}`", layer.summary) for n, layer in LAYERS.items())
    parts += ["### Layers", _table(("Layer", "Result"), layers)]
    return "\n\n".join(parts)


def renewed(page: str) -> str:
    """The page with the part between its markers written anew; ValueError if it lacks them."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page needs the markers {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{after}"


def _operators() -> Iterable[Sequence[str]]:
    for sign, record in UNARY_OPERATORS.items():
        yield f"`{sign}{' ' * sign.isalpha()}x`", f"`{record.name}(x)`"
    for sign, record in OPERATORS.items():
        yield f"`x {sign} y`", f"`{record.name}(x, y)`"


def _declaration(parameter: Parameter) -> str:
    if parameter.default is REQUIRED:
        return parameter.name
    return f"{parameter.name}={literal(parameter.default)}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([_cell(c) for c in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main(arguments: Sequence[str]) -> int:
    """Renew the pages named; the exit status."""
    if not arguments:
        print("usage: python -m fusegen.ops.reference PAGE...", file=sys.stderr)
        return 2
    for name in arguments:
        path = Path(name)
        path.write_text(renewed(path.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
