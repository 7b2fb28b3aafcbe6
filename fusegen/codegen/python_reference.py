"""A graph as a PyTorch function that a person can read: the reference of the kernels."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from fusegen.codegen.names import Names
from fusegen.ir.graph import Attributes, AttributeValue, Graph, Node, Shape, topological
from fusegen.ir.integers import Integer, Symbol
from fusegen.ops.construct import is_number
from fusegen.ops.pointwise.casting import CAST
from fusegen.ops.record import Composite, Reshape, View
from fusegen.ops.twin import literal, render

# A tuple of more items is annotated without their number.
ANNOTATED = 6
# What the twins of operations use, and Python's own words.
RESERVED = frozenset({*keyword.kwlist, "torch", "F", "float", "_dropout"})

# A dtype as Python text, a dict by the module's dtype where it depends on that; COMPUTE; or None
# for the module's dtype itself.
DtypeText = str | None
# The type that arithmetic on the module's dtype is done in.
COMPUTE = "compute"


@dataclass(frozen=True)
class FunctionText:
    """A function's parameters and statements."""

    parameters: tuple[str, ...]
    statements: tuple[str, ...]


def reference_text(graph: Graph, tensors: tuple[Node, ...]) -> FunctionText:
    """What a graph computes, as a function of the placeholders `tensors`."""
    scope = _Scope.of(tensors)
    body = _statements(graph, scope.names, scope.texts, scope.sizes)
    results = [_returned(root, scope.texts[root]) for root in graph.roots]
    bound = scope.bound_sizes([*body, *results])
    return FunctionText(scope.parameters, (*bound, *body, *_return(results)))


def empty_text(
    graph: Graph, tensors: tuple[Node, ...], model: Node, dtypes: tuple[DtypeText, ...]
) -> FunctionText:
    """Empty tensors of the shapes, strides and dtypes of a graph's results, as a function of the
    placeholders `tensors`.

    `dtypes` are the results'; those without one have the dtype of the tensor `model`.
    """
    scope = _Scope.of(tensors)
    results = [
        _empty(_renamed(tuple(root.shape), scope.sizes), scope.texts[model], dtype)
        for root, dtype in zip(graph.roots, dtypes, strict=True)
    ]
    return FunctionText(scope.parameters, (*scope.bound_sizes(results), *_return(results)))


def size_text(size: Integer, named: dict[Node, str]) -> str:
    """A size, read from tensors that have names."""
    found = _origins(tuple(named), named)
    origins = {symbol.name: origin for symbol, origin in found.items()}
    return re.sub(r"[A-Za-z_]\w*", lambda word: origins.get(word[0], word[0]), literal(size))


def result_type(count: int) -> str:
    """The annotation of a function that returns so many tensors."""
    if count > ANNOTATED:
        return "tuple[Tensor, ...]"
    return "Tensor" if count == 1 else f"tuple[{', '.join(['Tensor'] * count)}]"


@dataclass(frozen=True)
class _Scope:
    """The names in a function's text: those given out, `texts` of tensors, which are the function's
    parameters first, and where symbolic sizes come from. `sizes` are those that have other names
    than the user's."""

    names: Names
    texts: dict[Node, str]
    parameters: tuple[str, ...]
    sizes: Mapping[Symbol, Integer]
    origins: Mapping[str, str]

    @staticmethod
    def of(tensors: tuple[Node, ...]) -> _Scope:
        found = {s for node in tensors for s in _symbols(node.shape)}
        symbols = sorted(found, key=lambda s: s.name)
        names = Names({symbol.name for symbol in symbols}, RESERVED)
        clashing = [symbol for symbol in symbols if symbol.name in RESERVED]
        renamed = {symbol: Integer.symbol(names.fresh(symbol.name)) for symbol in clashing}
        texts = {node: names.fresh(_stem(node)) for node in tensors}
        origins = {
            str(renamed.get(symbol, symbol)): origin
            for symbol, origin in _origins(tensors, texts).items()
        }
        return _Scope(names, texts, tuple(texts.values()), renamed, origins)

    def bound_sizes(self, lines: list[str]) -> tuple[str, ...]:
        """The statements that bind the sizes which the lines mention."""
        return tuple(
            f"{name} = {self.origins[name]}"
            for name in sorted(self.origins)
            if any(re.search(rf"(?<![\w.]){name}\b", line) for line in lines)
        )


def _return(values: list[str]) -> tuple[str, ...]:
    """A return statement, of a tuple where there are several values."""
    if len(values) == 1:
        return (f"return {values[0]}",)
    return ("return (", *(f"    {value}," for value in values), ")")


def _statements(
    graph: Graph, names: Names, texts: dict[Node, str], sizes: Mapping[Symbol, Integer]
) -> list[str]:
    """A statement for each node, its variable added to `texts`; `sizes` are those renamed."""
    statements = []
    for node in topological(graph.roots):
        if node in texts:
            continue
        named = tuple((name, _renamed(value, sizes)) for name, value in node.attributes.items())
        operands = [texts[operand] for operand in node.operands]
        expression = render(replace(node, attributes=Attributes(named)), operands)
        if is_number(node):
            texts[node] = expression
            continue
        texts[node] = names.fresh(_stem(node))
        statements.append(f"{texts[node]} = {expression}")
    return statements


def _stem(node: Node) -> str:
    """The user's name for a value, or the operation's."""
    path = getattr(node.operation, "path", "")
    return path or node.name or node.operation.name


def _origins(tensors: tuple[Node, ...], texts: dict[Node, str]) -> dict[Symbol, str]:
    """Where each symbolic size can be read: the first dimension that has it."""
    origins: dict[Symbol, str] = {}
    for node in tensors:
        for dim, size in enumerate(node.shape):
            for symbol in size.symbols():
                if size == Integer.of_atom(symbol):
                    origins.setdefault(symbol, f"{texts[node]}.shape[{dim}]")
    return origins


def _renamed(value: AttributeValue, sizes: Mapping[Symbol, Integer]) -> AttributeValue:
    """An attribute with other names for some sizes."""
    if isinstance(value, Integer):
        return value.substitute(sizes)
    if isinstance(value, tuple):
        return tuple(_renamed(item, sizes) for item in value)
    return value


def _symbols(shape: Shape) -> frozenset[Symbol]:
    return frozenset().union(*(size.symbols() for size in shape))


def _returned(root: Node, text: str) -> str:
    """A result of the function; one that would share a parameter's memory is copied."""
    if is_number(root):
        return f"torch.tensor({text}, dtype={literal(root.dtype)})"
    return f"{text}.clone()" if _may_alias(root) else text


def _may_alias(node: Node) -> bool:
    """Whether a value may be a view of a parameter."""
    while node.operands:
        if isinstance(node.operation, Composite):
            node = node.operation.decompose(node.operands, node.attributes)
        elif isinstance(node.operation, (View, Reshape)) or node.operation is CAST:
            (node,) = node.operands
        else:
            return False
    return not is_number(node)


def _empty(shape: AttributeValue, model: str, dtype: DtypeText) -> str:
    """A contiguous tensor on the device of `model`, and of its dtype unless another is given."""
    own = "" if dtype is None else f", dtype={dtype}"
    if dtype is COMPUTE:
        own = f", dtype=torch.promote_types({model}.dtype, torch.float32)"
    elif dtype is not None and dtype.startswith("{"):
        own += f"[{model}.dtype]"
    return f"{model}.new_empty({literal(shape)}{own})"
