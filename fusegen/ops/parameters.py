"""Short ways to write the parameters of records."""

from __future__ import annotations

from fusegen.ir.graph import AttributeValue
from fusegen.ops.record import REQUIRED, Parameter, ParameterKind, _Required

INPUT = Parameter("input", ParameterKind.TENSOR)
OTHER = Parameter("other", ParameterKind.TENSOR)
WEIGHT = Parameter("weight", ParameterKind.OPTIONAL_TENSOR, None)
BIAS = Parameter("bias", ParameterKind.OPTIONAL_TENSOR, None)
KEEPDIM = Parameter("keepdim", ParameterKind.FLAG, False)
DIM = Parameter("dim", ParameterKind.DIM)
DTYPE = Parameter("dtype", ParameterKind.DTYPE, None)


def tensor(name: str) -> Parameter:
    """A tensor parameter."""
    return Parameter(name, ParameterKind.TENSOR)


def optional_tensor(name: str) -> Parameter:
    """A tensor that may be left out."""
    return Parameter(name, ParameterKind.OPTIONAL_TENSOR, None)


def number(name: str, default: float | int | _Required | None = REQUIRED) -> Parameter:
    """A number that keeps its kind: an int stays an int."""
    return Parameter(name, ParameterKind.SCALAR, default)


def floating(name: str, default: float | _Required | None = REQUIRED) -> Parameter:
    """A number that is taken as a float."""
    return Parameter(name, ParameterKind.FLOAT, default)


def integer(name: str, default: int | _Required | None = REQUIRED) -> Parameter:
    """An int."""
    return Parameter(name, ParameterKind.INTEGER, default)


def flag(name: str, default: bool | None = False) -> Parameter:
    """True or False."""
    return Parameter(name, ParameterKind.FLAG, default)


def integers(
    name: str,
    default: AttributeValue | _Required = REQUIRED,
    choices: tuple[str, ...] = (),
) -> Parameter:
    """An int for every spatial dim, or a tuple of one each; or one of the words in `choices`."""
    return Parameter(name, ParameterKind.INTEGERS, default, choices)


def sizes(name: str) -> Parameter:
    """A tuple of sizes."""
    return Parameter(name, ParameterKind.SIZES)


def dims(name: str, default: AttributeValue | _Required = REQUIRED) -> Parameter:
    """A dim, a tuple of dims, or None for all."""
    return Parameter(name, ParameterKind.DIMS, default)


def text(name: str, default: str | None, choices: tuple[str, ...]) -> Parameter:
    """One of the words in `choices`."""
    return Parameter(name, ParameterKind.TEXT, default, choices)
