"""Which operand belongs to which parameter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from fusegen.ir.graph import Attributes
from fusegen.ops.record import Parameter, ParameterKind

T = TypeVar("T")

TENSOR_KINDS = (ParameterKind.TENSOR, ParameterKind.OPTIONAL_TENSOR, ParameterKind.TENSORS)


def by_parameter(
    parameters: Sequence[Parameter], operands: Sequence[T], attributes: Attributes
) -> dict[str, tuple[T, ...]]:
    """What a node's operands (or their types, or their text) stand for: one for a tensor
    parameter, none for an optional one that is missing, any number for a list of tensors."""
    rest = list(operands)
    found: dict[str, tuple[T, ...]] = {}
    for parameter in parameters:
        if parameter.kind is ParameterKind.TENSORS:
            found[parameter.name], rest = tuple(rest), []
        elif parameter.kind in TENSOR_KINDS:
            missing = parameter.name in attributes
            found[parameter.name] = () if missing else (rest.pop(0),)
    return found


def unpack(operands: Sequence[T], attributes: Attributes, *names: str) -> list[T | None]:
    """The operands of tensor parameters `names`, with None where an optional one is missing."""
    rest = iter(operands)
    return [None if name in attributes else next(rest) for name in names]
