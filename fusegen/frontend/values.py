"""What an expression can stand for while a program is elaborated."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeGuard

from fusegen.errors import Span
from fusegen.frontend.modules import LayerModule, ModelModule
from fusegen.frontend.syntax import Function, Model
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Node, Role
from fusegen.ir.integers import Integer
from fusegen.ops.record import Layer, Macro, Record, Stochastic


class Poison(Enum):
    """The value of a name whose definition failed, or is not known yet: what uses it is passed
    over in silence."""

    POISON = "poison"


POISON = Poison.POISON


@dataclass(frozen=True)
class TensorClass:
    """`Parameter` or `Buffer`: declares a bare tensor."""

    role: Role

    @property
    def name(self) -> str:
        """The word in the language."""
        return "Parameter" if self.role is Role.PARAMETER else "Buffer"


Declarable = Layer | Model | TensorClass
Callee = Record | Macro | Stochastic | Function | Declarable | LayerModule | ModelModule
Value = (
    Node | Integer | bool | int | float | str | None | DType | Callee | Poison | tuple["Value", ...]
)
Scope = dict[str, Value]


class Problem(Exception):
    """An error in one statement: what is wrong, where, and the mend; `inside` names the function
    it was met in, where the place shown is that of the call."""

    def __init__(
        self, message: str, span: Span, hint: str | None = None, inside: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.hint = hint
        self.inside = inside


class Poisoned(Exception):
    """A statement uses a poisoned value, so nothing can be said about it."""


def is_number(value: object) -> TypeGuard[bool | int | float]:
    """Whether it is a compile-time number (or truth value)."""
    return isinstance(value, (bool, int, float))


def describe(value: Value) -> str:
    """The value in words, for a message."""
    if isinstance(value, Node):
        return f"a tensor {value.type}"
    if isinstance(value, Integer):
        return f"the size {value}, known only at run time"
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, (int, float)):
        return f"the number {value}"
    if isinstance(value, str):
        return f"the string '{value}'"
    if isinstance(value, DType):
        return f"the dtype {value.value}"
    if isinstance(value, tuple):
        return f"a list of {len(value)}"
    if isinstance(value, (Function, Model)):
        kind = "model" if isinstance(value, Model) else "function"
        return f"the {kind} '{value.name.text}'"
    if isinstance(value, (LayerModule, ModelModule)):
        return f"the layer '{value.path}'"
    if isinstance(value, (Layer, TensorClass)):
        return f"the layer {value.name}"
    assert not isinstance(value, Poison)
    return f"the function {value.name}"
