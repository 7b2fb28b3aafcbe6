"""Making nodes: defaults filled in, numbers turned into constants, types inferred."""

from __future__ import annotations

from collections.abc import Sequence

from fusegen.ir.dtypes import DType, Kind
from fusegen.ir.graph import Attributes, AttributeValue, Node, TensorType
from fusegen.ir.integers import Integer
from fusegen.ops.inference import result_dtype
from fusegen.ops.operands import TENSOR_KINDS
from fusegen.ops.pointwise import casting
from fusegen.ops.record import (
    CONSTANT,
    REQUIRED,
    SIZE_VALUE,
    Composite,
    OperationError,
    Parameter,
    ParameterKind,
    Pointwise,
    Record,
)

Operand = Node | bool | int | float | Integer


def constant(value: bool | int | float, dtype: DType) -> Node:
    """A number as a scalar node of `dtype`, in whose kind the value is kept."""
    value = float(value) if dtype.is_float else value
    return Node(CONSTANT, (), Attributes.of(value=value), TensorType((), dtype))


def size_value(size: Integer) -> Node:
    """A size as an int64 scalar node: a constant where it is known."""
    if size.constant is not None:
        return constant(size.constant, DType.INT64)
    return Node(SIZE_VALUE, (), Attributes.of(size=size), TensorType((), DType.INT64))


def as_tensor(value: bool) -> Node:
    """A truth value as a scalar tensor, which does not follow the dtype of what it meets."""
    return call(casting.CAST, (constant(value, DType.BOOL),), dtype=DType.BOOL)


def is_number(node: Node) -> bool:
    """Whether the node is a constant or a size: a Python number in PyTorch's eyes, which follows
    the dtype of the tensors it meets."""
    return node.operation in (CONSTANT, SIZE_VALUE)


def call(record: Record, operands: Sequence[Operand | None], **attributes: AttributeValue) -> Node:
    """The node of `record` applied to `operands`, with `attributes` by parameter name.

    Operands stand in the order of the tensor parameters, the items of a list of tensors last; None
    is a missing optional tensor. Numbers and sizes become scalar nodes by PyTorch's rule: one
    changes the dtype only where its kind is higher than that of the tensors. Raises
    `OperationError` for what the operation does not accept.
    """
    kept = [operand for operand in operands if operand is not None]
    nodes = as_nodes(kept)
    if isinstance(record, Pointwise) and record.floating:
        nodes = _to_floats(nodes)
    complete = Attributes(tuple(_complete(record, operands, attributes)))
    if isinstance(record, Composite):  # it may look at what its constants are
        result = record.decompose(tuple(nodes), complete).type
    else:
        result = record.infer(tuple(node.type for node in nodes), complete)
    return Node(record, tuple(nodes), complete, result)


def _complete(
    record: Record, operands: Sequence[Operand | None], given: dict[str, AttributeValue]
) -> list[tuple[str, AttributeValue]]:
    """Every parameter that is no operand, with its value, in the record's order."""
    unknown = given.keys() - {parameter.name for parameter in record.parameters}
    if unknown:
        raise TypeError(f"{record.name} has no parameter {', '.join(sorted(unknown))}")
    waiting = list(operands)
    values: list[tuple[str, AttributeValue]] = []
    for parameter in record.parameters:
        if parameter.kind is ParameterKind.TENSORS:
            waiting.clear()
        elif parameter.kind in TENSOR_KINDS:
            present = waiting.pop(0) if waiting else None
            if present is None:
                values.append((parameter.name, _default(record, parameter)))
        elif parameter.name in given:
            values.append((parameter.name, _coerced(parameter, given[parameter.name])))
        else:
            values.append((parameter.name, _default(record, parameter)))
    if waiting:
        raise TypeError(f"{record.name} got {len(waiting)} operands too many")
    return values


def _default(record: Record, parameter: Parameter) -> AttributeValue:
    if parameter.default is REQUIRED:
        raise TypeError(f"{record.name} needs {parameter.name}")
    return parameter.default


def _coerced(parameter: Parameter, value: AttributeValue) -> AttributeValue:
    if parameter.choices and isinstance(value, str) and value not in parameter.choices:
        raise OperationError(
            f"{parameter.name} cannot be '{value}'",
            f"it can be {' or '.join(repr(choice) for choice in parameter.choices)}",
        )
    if parameter.kind is ParameterKind.FLOAT and type(value) is int:
        return float(value)
    return value


def as_nodes(operands: Sequence[Operand]) -> list[Node]:
    """Operands as nodes: numbers as constants of the dtype that they have among the tensors."""
    tensors = [o.type for o in operands if isinstance(o, Node) and not is_number(o)]
    dtype = result_dtype(tensors) if tensors else None
    return [_as_node(operand, dtype) for operand in operands]


def _as_node(operand: Operand, dtype: DType | None) -> Node:
    if isinstance(operand, Integer):
        operand = size_value(operand)
    if not isinstance(operand, Node):
        return constant(operand, _number_dtype(operand, dtype))
    if operand.operation is CONSTANT:
        return constant(_value(operand), _number_dtype(_value(operand), dtype))
    return operand


def _number_dtype(number: bool | int | float, beside: DType | None) -> DType:
    """The dtype of a number among tensors of dtype `beside`."""
    if isinstance(number, bool):
        own = DType.BOOL
    else:
        own = DType.INT64 if isinstance(number, int) else DType.FLOAT32
    return own if beside is None or _outranks(own.kind, beside.kind) else beside


def _outranks(kind: Kind, other: Kind) -> bool:
    return kind.value > other.value


def _to_floats(nodes: list[Node]) -> list[Node]:
    """Operands that promote to a floating-point dtype: unless they do already, as float32."""
    if result_dtype([node.type for node in nodes]).is_float:
        return nodes
    return [_to_float(node) for node in nodes]


def _to_float(node: Node) -> Node:
    if node.operation is CONSTANT:
        return constant(_value(node), DType.FLOAT32)
    return call(casting.CAST, (node,), dtype=DType.FLOAT32)


def _value(node: Node) -> bool | int | float:
    value = node.attributes["value"]
    assert isinstance(value, (bool, int, float))
    return value
