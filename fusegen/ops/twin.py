"""Operations as PyTorch expressions: the reference that kernels are held against.

A record's `twin` has `{parameter}` where an argument goes. By its format, an operand that is a
number (a constant or a size) is written as

- `{x}`: a tensor, since the function takes nothing else;
- `{x:number}`: the number, since the function takes one;
- `{x:operand}`: the number, and anything that is not a single term in parentheses;

but as a tensor everywhere if all operands are numbers, so that the result is always a tensor.

`{dims:only}` is the one item of a tuple, or the item itself where there is no tuple. An argument `,
name={name}` is left out where it has its default. The names `torch` and `F` (torch.nn.functional)
must be in scope.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import AttributeValue, Node
from fusegen.ir.integers import Integer
from fusegen.ops.construct import is_number
from fusegen.ops.operands import by_parameter
from fusegen.ops.record import CONSTANT, SIZE_VALUE, ParameterKind, Record

_SLOT = re.compile(r"\{(\w+)(?::(\w+))?\}")
_KEYWORD = re.compile(r", (\w+)=\{\1(?::\w+)?\}")
_TERM = re.compile(r"[\w.]+(\([^()]*\))?")


def render(node: Node, operands: Sequence[str]) -> str:
    """The node as a PyTorch expression over the text of its operands.

    Sizes appear as Python expressions over their names. A number among the operands is given by
    the text of the Python number.
    """
    if node.operation is CONSTANT:
        return literal(node.attributes["value"])
    if node.operation is SIZE_VALUE:
        return literal(node.attributes["size"])
    record = node.operation
    assert isinstance(record, Record)
    texts = by_parameter(record.parameters, operands, node.attributes)
    nodes = by_parameter(record.parameters, node.operands, node.attributes)
    only_numbers = all(map(is_number, node.operands))

    def keyword(match: re.Match[str]) -> str:
        name = match[1]
        default = next(p.default for p in record.parameters if p.name == name)
        given = name in node.attributes and node.attributes[name] == default
        return "" if given else match[0]

    def slot(match: re.Match[str]) -> str:
        name, form = match[1], match[2]
        if name in node.attributes:
            value = node.attributes[name]
            if form == "only" and isinstance(value, tuple):
                (value,) = value
            return literal(value)
        usage = None if only_numbers else form
        items = [_operand(n, t, usage) for n, t in zip(nodes[name], texts[name], strict=True)]
        kind = next(p.kind for p in record.parameters if p.name == name)
        return f"[{', '.join(items)}]" if kind is ParameterKind.TENSORS else items[0]

    return _SLOT.sub(slot, _KEYWORD.sub(keyword, record.twin))


def literal(value: AttributeValue) -> str:
    """An attribute as Python text."""
    if isinstance(value, DType):
        return f"torch.{value.value}"
    if isinstance(value, Integer):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, tuple):
        items = [literal(item) for item in value]
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
    if isinstance(value, str):
        return f'"{value}"'
    return repr(value)


def _operand(node: Node, text: str, form: str | None) -> str:
    if is_number(node) and form is None:
        return f"torch.tensor({text}, dtype=torch.{node.dtype.value})"
    if form == "operand" and not _TERM.fullmatch(text):
        return f"({text})"
    return text
