"""Memory that an operator gives back before it ends, and the names it has by what it gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fusegen.plan.buffers import Buffer, BufferRole
from fusegen.plan.kernels.module import ModulePlan, in_place_of


@dataclass(frozen=True)
class Entry:
    """A name that an operator is registered under, with its schema's parameters, and whether it
    drops arguments there."""

    name: str
    parameters: tuple[str, ...]
    drops: bool = False


def released(plan: ModulePlan) -> frozenset[Buffer]:
    """The buffers that are given back before the call ends."""
    return frozenset(buffer for given_back in plan.releases for buffer in given_back)


def release_lines(plan: ModulePlan, step: int, variables: Mapping[str, str]) -> tuple[str, ...]:
    """The statements that give back memory behind a step; `variables` are the buffers' names."""
    lines = []
    same = in_place_of(plan.steps[step])
    if same is not None and same.read in plan.releases[step]:
        name, heir = variables[same.read.name], variables[same.written.name]
        lines.append(f"{name} = Tensor();  // its memory is that of {heir}")
    for method, is_workspace in (("run.release", True), ("if (dropping) run.drop", False)):
        given_back = [
            f"&{variables[buffer.name]}"
            for buffer in plan.releases[step]
            if (buffer.role is BufferRole.WORKSPACE) is is_workspace
            and (same is None or buffer is not same.read)
        ]
        if given_back:
            lines.append(f"{method}({{{', '.join(given_back)}}});")
    return tuple(lines)


def entries(
    plan: ModulePlan, operator: str, variables: Mapping[str, str], *, chooses: bool
) -> tuple[Entry, ...]:
    """The names of an operator, two for each. Autograd knows a forward's first, and its second
    spares calls without gradients autograd's Python. A backward, which `chooses` among its results,
    leaves its arguments alone under the first name, and drops what it may under the second."""
    tensors = [f"Tensor {variables[buffer.name]}" for buffer in plan.arguments]
    if not chooses:
        return tuple(Entry(n, tuple(tensors)) for n in (operator, f"{operator}_no_grad"))
    dropped = released(plan) & set(plan.arguments)
    marked = [
        f"Tensor(a{number}!) {variables[buffer.name]}" if buffer in dropped else text
        for number, (buffer, text) in enumerate(zip(plan.arguments, tensors, strict=True))
    ]
    return (
        Entry(operator, (*tensors, "int wanted")),
        Entry(f"{operator}_dropping", (*marked, "int wanted"), drops=bool(dropped)),
    )
