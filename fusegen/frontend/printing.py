"""A graph as the text of a `.fuse` file: elaborating it gives the same graph again."""

from __future__ import annotations

import keyword
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fusegen.frontend.expressions import BUILTINS
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import (
    Attributes,
    AttributeValue,
    Graph,
    LayerInstance,
    Node,
    Shape,
    topological,
)
from fusegen.ir.integers import ONE, Integer
from fusegen.ops.construct import is_number
from fusegen.ops.operands import TENSOR_KINDS, by_parameter
from fusegen.ops.primitive import views
from fusegen.ops.record import CONSTANT, Parameter, ParameterKind, Record
from fusegen.ops.registry import FUNCTIONS, OPERATORS

_WORDS = frozenset({"model", "fn", "input", "return", "True", "False", "None", *keyword.kwlist})
_SYMBOLS = {record: symbol for symbol, record in OPERATORS.items()}


def source_text(graph: Graph, dtype: DType = DType.FLOAT32) -> str:
    """The program of a graph as the frontend makes it, in evaluation, for a module of `dtype`.

    Every operation has a line of its own, calls of functions and of other models are written out,
    and layers stand as declarations that functions read the tensors of. Names of values are kept
    where they can be. What the frontend never makes, such as a gradient's graph, has no text: its
    primitive operations have no name in the language, which is a ValueError.
    """
    members = tuple(dict.fromkeys(layer.path.partition(".")[0] for layer in graph.layers))
    sizes = {s.name for node in graph.inputs for size in node.shape for s in size.symbols()}
    inputs = [node.name or "" for node in graph.inputs]
    names = _Names({*members, *sizes, *inputs, *graph.arguments})
    texts = dict(zip(graph.inputs, inputs, strict=True))
    texts |= {node: getattr(node.operation, "path", "") for node in graph.tensors}
    holders: list[str] = []
    declared = list(_declarations(graph.name, "", graph.layers, holders))
    shadowing = _Shadowing(names.taken.copy())
    body = [*_inputs(graph.inputs, dtype), *declared, *_statements(graph, names, texts, shadowing)]
    arguments = ", ".join(f"{name}={_literal(value)}" for name, value in graph.arguments.items())
    lines = [*_comment(graph.description), f"model {graph.name}({arguments}):", *_indented(body)]
    return "\n\n".join(["\n".join(lines), *holders, *shadowing.functions.values()]) + "\n"


@dataclass
class _Names:
    """The names of a program that are taken so far."""

    taken: set[str]

    def is_free(self, name: str) -> bool:
        """Whether a value may have this name; those of operations are kept for them."""
        usable = name.isidentifier() and name.isascii() and name != "_"
        return usable and name not in self.taken and name not in BUILTINS and name not in _WORDS

    def fresh(self, wanted: str) -> str:
        """`wanted` if it is free, else a name like it; taken from now on."""
        stem = wanted.replace(".", "_")
        found, number = wanted, 1
        while not self.is_free(found):
            found, number = f"{stem}_{number}", number + 1
        self.taken.add(found)
        return found


@dataclass
class _Shadowing:
    """Functions that stand for the operations whose own names mean something else in the model."""

    names: Collection[str]
    functions: dict[tuple[str, ...], str] = field(default_factory=dict)

    def call(self, name: str, positional: Sequence[str], named: Mapping[str, str]) -> str:
        """A call of the operation `name`."""
        if name not in self.names:
            return _call(name, positional, named)
        key = (name, str(len(positional)), *named)
        number = [*self.functions, key].index(key)
        other = f"operation_{number}_{name}"
        given = [f"given_{i}" for i in range(len(positional) + len(named))]
        passed = dict(zip(named, given[len(positional) :], strict=True))
        body = _call(name, given[: len(positional)], passed)
        self.functions[key] = f"fn {other}({', '.join(given)}) = {body}"
        return _call(other, [*positional, *named.values()], {})


def _call(function: str, positional: Sequence[str], named: Mapping[str, str]) -> str:
    return f"{function}({', '.join([*positional, *(f'{k}={v}' for k, v in named.items())])})"


def _comment(description: str) -> Iterator[str]:
    return (f"# {line}".rstrip() for line in description.split("\n") if description)


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"    {line}" for line in lines)


def _inputs(inputs: Sequence[Node], dtype: DType) -> Iterator[str]:
    for node in inputs:
        pinned = "" if node.dtype is dtype else node.dtype.value
        yield f"input {node.name}: {pinned}{_literal(node.shape, brackets='[]')}"


def _declarations(
    model: str, path: str, layers: Sequence[LayerInstance], holders: list[str]
) -> Iterator[str]:
    """The declarations of the layers below a path, in order; models that hold the tensors of
    nested ones are added to `holders`."""
    done = set()
    for layer in layers:
        name, nested, _ = layer.path[len(path) :].partition(".")
        if name in done:
            continue
        done.add(name)
        if not nested:
            given = ", ".join(f"{key}={_literal(value)}" for key, value in layer.arguments.items())
            yield f"{name} = {layer.kind}({given})"
            continue
        holder, prefix = f"{model}_{name}", f"{path}{name}."
        within = [other for other in layers if other.path.startswith(prefix)]
        lines = list(_declarations(holder, prefix, within, holders))
        passed = "x" if not any(line.startswith("x = ") for line in lines) else "passed_on"
        body = [f"input {passed}: []", *lines, f"return {passed}"]
        holders.append("\n".join([f"model {holder}():", *_indented(body)]))
        yield f"{name} = {holder}()"


def _statements(
    graph: Graph, names: _Names, texts: dict[Node, str], shadowing: _Shadowing
) -> Iterator[str]:
    """A binding for each operation, and the return."""
    kept = {output.name for output in graph.outputs if names.is_free(output.name)}
    names.taken |= kept
    wanted = {output.node: output.name for output in reversed(graph.outputs)}
    for node in topological(graph.roots):
        if node in texts:
            continue
        if is_number(node):
            texts[node] = _number(node)
            continue
        text = _expression(node, [texts[operand] for operand in node.operands], shadowing)
        name = wanted.get(node, "")
        if name not in kept:
            name = names.fresh(node.name or node.operation.name)
        kept.discard(name)
        texts[node] = name
        yield f"{name} = {text}"
    returned = []
    for output in graph.outputs:
        if output.name in kept:
            yield f"{output.name} = {texts[output.node]}"
            kept.discard(output.name)
            texts[output.node] = output.name
        returned.append(texts[output.node])
    yield f"return {', '.join(returned)}"


def _number(node: Node) -> str:
    """A number or size; one that an operator would tear apart is in brackets."""
    text = _literal(node.attributes["value" if node.operation is CONSTANT else "size"])
    return text if text.isidentifier() or (text[0].isdigit() and " " not in text) else f"({text})"


def _expression(node: Node, operands: Sequence[str], shadowing: _Shadowing) -> str:
    """An operation on the texts of its operands."""
    record = node.operation
    assert isinstance(record, Record), record.name
    is_function = FUNCTIONS.get(record.name) is record
    only_numbers = all(map(is_number, node.operands))  # an operator computes with sizes at once
    if record in _SYMBOLS and not (is_function and only_numbers):
        return f"{operands[0]} {_SYMBOLS[record]} {operands[1]}"
    if is_function:
        positional, named = _arguments(record.parameters, operands, node.attributes)
        return shadowing.call(record.name, positional, named)
    if record is views.SLICE:
        return f"{operands[0]}[{_slice(node.attributes)}]"
    if record is views.RESHAPE:
        items = _subscripts(node.operands[0].shape, node.shape)
        if items is not None:
            return f"{operands[0]}[{', '.join(items)}]"
    raise ValueError(f"{record.name} of {node.operands[0].type} has no text in the language")


def _arguments(
    parameters: Sequence[Parameter], operands: Sequence[str], attributes: Attributes
) -> tuple[list[str], dict[str, str]]:
    """The positional arguments, which are the first tensors, and the others by name, without those
    that have their default."""
    tensors = by_parameter(parameters, operands, attributes)
    positional: list[str] = []
    named: dict[str, str] = {}
    for parameter in parameters:
        if parameter.kind is ParameterKind.TENSORS:
            text = f"[{', '.join(tensors[parameter.name])}]"
        elif parameter.kind in TENSOR_KINDS:
            if parameter.name in attributes:  # a tensor that is left out
                continue
            (text,) = tensors[parameter.name]
        else:
            value = attributes[parameter.name]
            if value == parameter.default and type(value) is type(parameter.default):
                continue
            text = _literal(value)
        is_tensor = parameter.kind in TENSOR_KINDS
        if is_tensor and len(positional) == parameters.index(parameter):
            positional.append(text)
        else:
            named[parameter.name] = text
    return positional, named


def _slice(attributes: Attributes) -> str:
    (start,), (stop,) = attributes.sizes("start"), attributes.sizes("stop")
    step = attributes.integer("step")
    before = ":, " * attributes.integer("dim")
    return f"{before}{start}:{stop}" + (f":{step}" if step > 1 else "")


def _subscripts(before: Shape, after: Shape) -> list[str] | None:
    """The subscripts that drop dims of size 1 and add others; None if that does not give `after`.

    A size that both shapes have next is kept, which is enough: dims of size 1 are all alike.
    """
    items: list[str] = []
    rest = list(after)
    for size in before:
        while rest and rest[0] == ONE != size:
            items.append("None")
            rest.pop(0)
        if rest and rest[0] == size:
            items.append(":")
            rest.pop(0)
        elif size == ONE:
            items.append("0")
        else:
            return None
    if any(size != ONE for size in rest):
        return None
    return [*items, *("None" for _ in rest)]


def _literal(value: AttributeValue, brackets: str = "()") -> str:
    """A number, size, dtype, text or list of them as an expression."""
    if isinstance(value, tuple):
        items = [_literal(item) for item in value]
        comma = "," if len(items) == 1 and brackets == "()" else ""
        return f"{brackets[0]}{', '.join(items)}{comma}{brackets[1]}"
    if isinstance(value, DType):
        return value.value
    if isinstance(value, str):
        return f"'{value}'" if '"' in value else f'"{value}"'
    return str(value) if isinstance(value, Integer) else repr(value)
