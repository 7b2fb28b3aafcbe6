"""Failing programs made small: operations are cut off, left out and replaced by inputs."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from fusegen.errors import FusegenError
from fusegen.frontend import Source, elaborate, parse
from fusegen.frontend.printing import source_text
from fusegen.ir.graph import Attributes, Graph, Node, Output, Placeholder, Role, topological
from fusegen.ops.construct import is_number
from fusegen.testing.case import Case, Filled

SMALLER_SIZES = (1, 2, 3, 5, 17)

IsFailing = Callable[[str, Case], bool]
T = TypeVar("T")


def reduced(text: str, case: Case, is_failing: IsFailing, seconds: float) -> tuple[str, Case]:
    """The smallest program and case found in that time that still fail.

    Lines of the text are left out first; then, unless the program fails no more when its graph is
    printed (which is in evaluation), operations, each on a line of its own.
    """
    end = time.monotonic() + seconds

    def is_smaller(candidate: str) -> bool:
        return _graph(candidate) is not None and is_failing(candidate, case)

    if _graph(text) is None:
        return text, case
    text = _first_of_many(text, _shorter_texts, is_smaller, end)
    graph = _graph(text)
    assert graph is not None
    if is_failing(source_text(graph), case):
        text = _first_of_many(source_text(graph), _simpler_texts, is_smaller, end)
    case = _first_of_many(case, _simpler_cases, lambda other: is_failing(text, other), end)
    return text, case


def _first_of_many(
    start: T, candidates: Callable[[T], Iterator[T]], is_right: Callable[[T], bool], end: float
) -> T:
    """From one to the first of its candidates that is right, again and again."""
    found: T | None = start
    while found is not None:
        start, found = found, None
        for candidate in candidates(start):
            if time.monotonic() > end:
                break
            if is_right(candidate):
                found = candidate
                break
    return start


def _shorter_texts(text: str) -> Iterator[str]:
    """Texts of a model that return less or an earlier value, or have a line less, each of its uses
    replaced by one of the names in it."""
    lines = text.split("\n")
    end = next(number for number, line in enumerate(lines) if line.startswith("    return "))
    results = lines[end].removeprefix("    return ").split(", ")
    if len(results) > 1:
        for result in results:
            yield "\n".join([*lines[:end], f"    return {result}", *lines[end + 1 :]])
    for number in reversed(range(end)):
        defined = re.match(r"    (\w+) = (.*)", lines[number])
        if defined is None:
            continue
        before, after = lines[:number], lines[number + 1 :]
        name, expression = defined.groups()
        if not any(re.search(rf"\b{name}\b", line) for line in after):
            yield "\n".join([*before, *after])
            continue
        for other in dict.fromkeys(re.findall(r"[A-Za-z_]\w*", expression)):
            used = [re.sub(rf"\b{name}\b", other, line) for line in after]
            yield "\n".join([*before, *used])


def _simpler_texts(text: str) -> Iterator[str]:
    """Printed graphs of fewer operations."""
    graph = _graph(text)
    return map(source_text, _simpler_graphs(graph)) if graph else iter(())


def _graph(text: str) -> Graph | None:
    try:
        return elaborate(parse(Source("reduced.fuse", text))).graph
    except FusegenError:
        return None


def _simpler_graphs(graph: Graph) -> Iterator[Graph]:
    """Graphs of fewer operations, those that leave out most first."""
    if len(graph.outputs) > 1:
        for output in graph.outputs:
            yield _with_outputs(graph, (output,))
    nodes = [
        node
        for node in topological(graph.roots)
        if not isinstance(node.operation, Placeholder) and not is_number(node)
    ]
    for node in nodes[: -len(graph.outputs)]:
        yield _with_outputs(graph, (Output("output", node),))
    taken = {node.name for node in graph.inputs}
    name = next(name for i in itertools.count() if (name := f"given_{i}") not in taken)
    for node in reversed(nodes):
        if all(node is not output.node for output in graph.outputs):
            placeholder = Placeholder("input", Role.INPUT)
            given = Node(placeholder, (), Attributes(), node.type, name)
            yield _substituted(graph, node, given)
        for operand in node.operands:
            if operand.type == node.type:
                yield _substituted(graph, node, operand)


def _with_outputs(graph: Graph, outputs: tuple[Output, ...]) -> Graph:
    """The graph with these outputs, and only what they need."""
    needed = set(topological(tuple(output.node for output in outputs)))
    paths = {getattr(node.operation, "path", "") for node in graph.tensors if node in needed}
    added = [
        node
        for node in needed
        if isinstance(node.operation, Placeholder)
        and node.operation.role is Role.INPUT
        and node not in graph.inputs
    ]
    return replace(
        graph,
        outputs=outputs,
        inputs=(*(node for node in graph.inputs if node in needed), *added),
        tensors=tuple(node for node in graph.tensors if node in needed),
        layers=tuple(
            layer
            for layer in graph.layers
            if any(path == layer.path or path.startswith(f"{layer.path}.") for path in paths)
        ),
    )


def _substituted(graph: Graph, node: Node, other: Node) -> Graph:
    """The graph with another node of the same type in one's place."""
    made: dict[Node, Node] = {node: other}
    for old in topological(graph.roots):
        if old not in made:
            operands = tuple(made[operand] for operand in old.operands)
            same = all(a is b for a, b in zip(operands, old.operands, strict=True))
            made[old] = old if same else replace(old, operands=operands)
    return _with_outputs(graph, tuple(Output(o.name, made[o.node]) for o in graph.outputs))


def _simpler_cases(case: Case) -> Iterator[Case]:
    """Cases with a tensor less that is special, a smaller size, or the plain order of threads."""
    for name in case.tensors:
        yield replace(case, tensors=_without(case.tensors, name))
    for name, size in case.sizes.items():
        for smaller in SMALLER_SIZES:
            if smaller < size:
                yield replace(case, sizes={**case.sizes, name: smaller})
    for name, filled in case.tensors.items():
        for simpler in (replace(filled, seed=0), Filled(filled.values, seed=filled.seed)):
            if simpler != filled:
                yield replace(case, tensors={**case.tensors, name: simpler})
    if case.order:
        yield replace(case, order=0)


def _without(tensors: Mapping[str, Filled], name: str) -> dict[str, Filled]:
    return {other: filled for other, filled in tensors.items() if other != name}
