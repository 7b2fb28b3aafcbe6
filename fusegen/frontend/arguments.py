"""Matching the arguments of a call to parameters, and checking what each may be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fusegen.errors import Span
from fusegen.frontend.report import listing, nearest
from fusegen.frontend.values import Problem, Value, describe, is_number
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Attributes, AttributeValue, Node
from fusegen.ir.integers import Integer
from fusegen.ops.record import REQUIRED, Parameter, ParameterKind


@dataclass(frozen=True)
class Argument:
    """One argument of a call: its keyword if it has one, its value, and where it stands."""

    name: str | None
    value: Value
    span: Span


def match(
    callee: str,
    parameters: Sequence[str],
    arguments: Iterable[Argument],
    *,
    many_hint: str | None = None,
) -> dict[str, Argument]:
    """The arguments by parameter name, as Python binds them.

    Raises Problem for too many, for a keyword that does not exist, and for one given twice;
    `callee` is shown in the message, and `many_hint` is the mend for too many.
    """
    found: dict[str, Argument] = {}
    position = 0
    for argument in arguments:
        if argument.name is None:
            if position == len(parameters):
                raise Problem(_too_many(callee, parameters, position), argument.span, many_hint)
            name = parameters[position]
            position += 1
        else:
            name = argument.name
            if name not in parameters:
                hint = nearest(name, parameters) or f"it takes {listing(parameters) or 'none'}"
                raise Problem(f"{callee} has no argument '{name}'", argument.span, hint)
        if name in found:
            hint = f"it takes {listing(parameters)}"
            raise Problem(f"{callee} is given '{name}' twice", argument.span, hint)
        found[name] = argument
    return found


def require(callee: str, needed: Iterable[str], found: Mapping[str, Argument], span: Span) -> None:
    """Raise Problem where one of the needed arguments is missing."""
    missing = [name for name in needed if name not in found]
    if missing:
        plural = "s" if len(missing) > 1 else ""
        raise Problem(f"{callee} needs the argument{plural} {listing(missing)}", span)


def bind(
    callee: str, parameters: Sequence[Parameter], arguments: Iterable[Argument], span: Span
) -> dict[str, Value]:
    """A value for every parameter of an operation or layer, each of its parameter's kind.

    Raises Problem where one is missing, unknown, or not of its kind.
    """
    names = [parameter.name for parameter in parameters]
    last_is_list = bool(parameters) and parameters[-1].kind in _LISTS
    hint = f"write '{names[-1]}' as one list: [a, b]" if last_is_list else None
    found = match(callee, names, arguments, many_hint=hint)
    require(callee, (p.name for p in parameters if p.default is REQUIRED), found, span)
    values: dict[str, Value] = {}
    for parameter in parameters:
        if parameter.name in found:
            values[parameter.name] = _converted(callee, parameter, found[parameter.name])
        else:
            assert parameter.default is not REQUIRED
            values[parameter.name] = parameter.default
    return values


def attributes_of(values: Mapping[str, Value]) -> Attributes:
    """Values that are no tensors, as the attributes of a node or layer."""
    return Attributes(tuple((name, _attribute(value)) for name, value in values.items()))


def _attribute(value: Value) -> AttributeValue:
    if isinstance(value, tuple):
        return tuple(_attribute(item) for item in value)
    assert value is None or isinstance(value, (bool, int, float, str, DType, Integer))
    return value


def _too_many(callee: str, parameters: Sequence[str], count: int) -> str:
    if not count:
        return f"{callee} takes no arguments"
    plural = "s" if count > 1 else ""
    return f"{callee} takes at most {count} argument{plural}: {listing(parameters)}"


def _converted(callee: str, parameter: Parameter, argument: Argument) -> Value:
    value = argument.value
    if value is None and (parameter.default is None or parameter.or_none):
        return None
    if isinstance(value, str) and value in parameter.choices:
        return value
    if parameter.kind is ParameterKind.SIZES and _is_size(value):
        value = (value,)  # as LayerNorm(512) does
    accepts, wanted = _KINDS[parameter.kind]
    if parameter.choices:
        words = f"one of {listing(parameter.choices)}"
        wanted = words if parameter.kind is ParameterKind.TEXT else f"{wanted} or {words}"
    if accepts(value) and not (parameter.choices and isinstance(value, str)):
        return float(value) if parameter.kind is ParameterKind.FLOAT else value  # type: ignore[arg-type]
    hint = None
    if isinstance(value, Integer) or (
        isinstance(value, tuple) and any(isinstance(item, Integer) for item in value)
    ):
        hint = "only numbers and model arguments are constants"
        wanted = f"a constant ({wanted})"
    elif isinstance(value, str) and parameter.kind is ParameterKind.DTYPE:
        hint = "write a dtype without quotes"
    elif isinstance(value, str):
        hint = nearest(value, parameter.choices)
    raise Problem(
        f"'{parameter.name}' of {callee} must be {wanted}, but it is {describe(value)}",
        argument.span,
        hint,
    )


def _is_tensor(value: Value) -> bool:
    return isinstance(value, (Node, Integer)) or is_number(value)


def _is_integer(value: Value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_size(value: Value) -> bool:
    return isinstance(value, Integer) or _is_integer(value)


def _list_of(accepts: Callable[[Value], bool]) -> Callable[[Value], bool]:
    return lambda value: isinstance(value, tuple) and all(accepts(item) for item in value)


def _is_integer_or_list(value: Value) -> bool:
    return _is_integer(value) or _list_of(_is_integer)(value)


_LISTS = (ParameterKind.SIZES, ParameterKind.DIMS)
_KINDS: dict[ParameterKind, tuple[Callable[[Value], bool], str]] = {
    ParameterKind.TENSOR: (_is_tensor, "a tensor or a number"),
    ParameterKind.OPTIONAL_TENSOR: (_is_tensor, "a tensor or None"),
    ParameterKind.TENSORS: (_list_of(_is_tensor), "a list of tensors: [a, b]"),
    ParameterKind.SCALAR: (is_number, "a number"),
    ParameterKind.INTEGER: (_is_integer, "an integer"),
    ParameterKind.FLOAT: (is_number, "a number"),
    ParameterKind.FLAG: (lambda value: isinstance(value, bool), "True or False"),
    ParameterKind.DIM: (_is_integer, "an integer"),
    ParameterKind.DIMS: (_is_integer_or_list, "an integer or a list of integers"),
    ParameterKind.SIZES: (_list_of(_is_size), "a list of sizes: [a, b]"),
    ParameterKind.INTEGERS: (_is_integer_or_list, "an integer or a list of integers"),
    ParameterKind.DTYPE: (lambda value: isinstance(value, DType), "a dtype such as float32"),
    ParameterKind.TEXT: (lambda value: isinstance(value, str), "a string"),
}
