"""Models and functions that use themselves, which a finite graph cannot hold."""

from __future__ import annotations

from collections.abc import Mapping

from fusegen.frontend.report import Report
from fusegen.frontend.syntax import Definition, Model, Name, references


def check_recursion(known: Mapping[str, Definition], report: Report) -> None:
    """Report every cycle of definitions that use each other, once, where it closes."""
    finished: set[str] = set()
    for name in known:
        _search(name, known, finished, report)


def _search(
    start: str, known: Mapping[str, Definition], finished: set[str], report: Report
) -> None:
    """Depth-first search with its own stack: each entry is a definition and its uses not yet
    followed."""
    path = [start]
    waiting = [_uses(known[start], known)]
    while path:
        if not waiting[-1] or path[-1] in finished:
            finished.add(path.pop())
            waiting.pop()
            continue
        use = waiting[-1].pop(0)
        if use.text in path:
            cycle = [*path[path.index(use.text) :], use.text]
            kind = "model" if isinstance(known[use.text], Model) else "function"
            way = "" if len(cycle) == 2 else f": {' → '.join(cycle)}"
            report.error(
                f"{kind} '{use.text}' uses itself{way}",
                use.span,
                "write the repeated steps out, one after the other",
            )
        elif use.text not in finished:
            path.append(use.text)
            waiting.append(_uses(known[use.text], known))


def _uses(definition: Definition, known: Mapping[str, Definition]) -> list[Name]:
    """The definitions used by one, each at its first place; its own names hide theirs."""
    own = {parameter.name.text for parameter in definition.parameters}
    found: dict[str, Name] = {}
    for name in references(definition.declared, definition.body):
        if name.text in known and name.text not in own:
            found.setdefault(name.text, name)
    return list(found.values())
