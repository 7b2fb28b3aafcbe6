"""Operators and a few functions on numbers, sizes and tensors.

Numbers are computed at once by Python's rules, sizes stay symbolic, and everything else becomes a
node of the graph.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence

from fusegen.frontend.syntax import MAXIMUM_INTEGER
from fusegen.frontend.values import Value, describe, is_number
from fusegen.ir.graph import Node
from fusegen.ir.integers import Integer
from fusegen.ops.build import call
from fusegen.ops.record import OperationError
from fusegen.ops.registry import OPERATORS, UNARY_OPERATORS

Number = bool | int | float

_BINARY: dict[str, Callable[..., Number]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}
_UNARY: dict[str, Callable[..., Number]] = {
    "-": operator.neg,
    "+": operator.pos,
    "not": operator.not_,
    "~": operator.invert,
}
_SIZES: dict[str, Callable[[Integer, Integer], Integer]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
}

# Functions that give a number where all their arguments are numbers, as Python's math does.
_ON_NUMBERS: dict[str, Callable[..., Number]] = {
    "abs": abs,
    "ceil": math.ceil,
    "exp": math.exp,
    "floor": math.floor,
    "log": math.log,
    "maximum": max,
    "minimum": min,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "sqrt": math.sqrt,
}

MAXIMUM_TERMS = 100  # of a symbolic size; products of sums grow without bound


def binary(symbol: str, left: Value, right: Value) -> Value:
    """`left symbol right`. Raises OperationError for operands the operator does not take."""
    if symbol in _BINARY and is_number(left) and is_number(right):
        if symbol == "**" and _is_huge_power(left, right):
            raise OperationError(f"{left} ** {right} is beyond a 64-bit integer")
        return _computed(_BINARY[symbol], left, right)
    sizes = [_as_size(value) for value in (left, right)]
    if symbol in _SIZES and sizes[0] is not None and sizes[1] is not None:
        if symbol in ("//", "%") and sizes[1].constant == 0:
            raise OperationError("division by zero")
        return _simplified(symbol, _SIZES[symbol](sizes[0], sizes[1]))
    for side, value in (("left", left), ("right", right)):
        _check_operand(symbol, value, f"its {side} side")
        if symbol == "@" and not isinstance(value, Node):
            raise OperationError(
                f"'@' multiplies matrices, but its {side} side is {describe(value)}"
            )
    try:
        return call(OPERATORS[symbol], (left, right))  # type: ignore[arg-type]
    except OperationError as error:
        raise OperationError(error.message, _keepdim_hint(left, right) or error.hint) from None


def unary(symbol: str, operand: Value) -> Value:
    """`symbol operand`. Raises OperationError for an operand the operator does not take."""
    if is_number(operand):
        return _computed(_UNARY[symbol], operand)
    if isinstance(operand, Integer) and symbol in "+-":
        return -operand if symbol == "-" else operand
    _check_operand(symbol, operand, "its operand")
    if symbol == "+":
        return operand
    return call(UNARY_OPERATORS[symbol], (operand,))  # type: ignore[arg-type]


def on_numbers(function: str, numbers: Sequence[Value]) -> Value | None:
    """The result of a function of numbers alone, where it has one at compile time."""
    if function not in _ON_NUMBERS or not all(is_number(number) for number in numbers):
        return None
    return _computed(_ON_NUMBERS[function], *numbers)


def _check_operand(symbol: str, value: Value, which: str) -> None:
    if not (isinstance(value, (Node, Integer)) or is_number(value)):
        raise OperationError(
            f"'{symbol}' takes tensors and numbers, but {which} is {describe(value)}"
        )


def _as_size(value: Value) -> Integer | None:
    if isinstance(value, Integer):
        return value
    return Integer.of(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _simplified(symbol: str, size: Integer) -> Integer | int:
    if len(size.terms) > MAXIMUM_TERMS:
        raise OperationError(f"the size that '{symbol}' gives is a sum of too many terms")
    return size if size.constant is None else size.constant


def _keepdim_hint(left: Value, right: Value) -> str | None:
    """The mend where two tensors differ in rank and one has just been reduced."""
    if not (isinstance(left, Node) and isinstance(right, Node)):
        return None
    lesser = min(left, right, key=lambda node: node.type.rank)
    if left.type.rank == right.type.rank or lesser.attributes.get("keepdim") is not False:
        return None
    return f"keep the reduced dim as size 1: {lesser.operation.name}(..., keepdim=True)"


def _computed(function: Callable[..., Number], *numbers: Value) -> Number:
    try:
        result = function(*numbers)
    except ZeroDivisionError:
        raise OperationError("division by zero") from None
    except (ArithmeticError, ValueError, TypeError) as error:
        raise OperationError(f"this cannot be computed: {error}") from None
    if isinstance(result, complex):
        raise OperationError("the result is a complex number, which fusegen does not have")
    if isinstance(result, int) and abs(result) > MAXIMUM_INTEGER:
        raise OperationError(f"{result} is beyond a 64-bit integer")
    return result


def _is_huge_power(base: Value, exponent: Value) -> bool:
    return isinstance(base, int) and isinstance(exponent, int) and abs(base) > 1 and exponent > 64
