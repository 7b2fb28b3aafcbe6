"""What kernels compute, in the user's words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fusegen.ir.graph import Node


@dataclass(frozen=True)
class Label:
    """An operation as the user wrote it, and the user's name for its result, if any."""

    operation: str
    name: str | None

    def __str__(self) -> str:
        named = self.name not in (None, self.operation)
        return f"{self.name} = {self.operation}" if named else self.operation


def labels_of(nodes: Iterable[Node]) -> tuple[Label, ...]:
    """The operations behind nodes in topological order; the parts of one are counted once.

    Parts are told by the operation they come from and its place in the source.
    """
    found: dict[object, Label] = {}
    for node in nodes:
        part_of = (node.origin, node.span) if node.origin is not None else node
        name = node.name or (found[part_of].name if part_of in found else None)
        found[part_of] = Label(node.written_as, name)
    return tuple(found.values())
