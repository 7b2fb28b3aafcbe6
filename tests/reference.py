"""Runs graphs in PyTorch, through the twins of their operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from fusegen.ir.graph import Node, topological
from fusegen.ops.construct import is_number
from fusegen.ops.record import CONSTANT
from fusegen.ops.twin import render
from fusegen.testing import twins


def evaluate(
    roots: Sequence[Node],
    values: Mapping[Node, torch.Tensor],
    sizes: Mapping[str, int] | None = None,
) -> tuple[torch.Tensor, ...]:
    """The roots' values, given those of the placeholders and of the symbolic sizes by name."""
    scope: dict[str, object] = {**twins.names(), **(sizes or {})}
    names: dict[Node, str] = {}
    for position, node in enumerate(topological(tuple(roots))):
        if node in values:
            names[node] = f"_{position}"
            scope[names[node]] = values[node]
            continue
        text = render(node, [names[operand] for operand in node.operands])
        if is_number(node):
            names[node] = text
            continue
        names[node] = f"_{position}"
        scope[names[node]] = eval(text, scope)
    return tuple(_tensor(root, names[root], scope) for root in roots)


def _tensor(root: Node, name: str, scope: Mapping[str, object]) -> torch.Tensor:
    dtype = getattr(torch, root.dtype.value)
    value = eval(name, dict(scope))
    if root.operation is CONSTANT or not isinstance(value, torch.Tensor):
        return torch.tensor(value, dtype=dtype)
    return value
