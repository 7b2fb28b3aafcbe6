"""Evaluating expressions, all but what calling something means."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeGuard, TypeVar

from fusegen.errors import Span
from fusegen.frontend.arguments import Argument
from fusegen.frontend.modules import LayerModule, ModelModule
from fusegen.frontend.names import DTYPES
from fusegen.frontend.operators import binary, unary
from fusegen.frontend.report import nearest
from fusegen.frontend.syntax import (
    Attribute,
    Binary,
    Call,
    Comparison,
    Constant,
    Definition,
    Dots,
    Expression,
    Index,
    Keyword,
    ListDisplay,
    Model,
    Name,
    Number,
    Pipe,
    Slice,
    String,
    TupleDisplay,
    Unary,
)
from fusegen.frontend.values import (
    POISON,
    Declarable,
    Poisoned,
    Problem,
    Scope,
    TensorClass,
    Value,
    describe,
)
from fusegen.ir.graph import Node, Role
from fusegen.ir.integers import Integer
from fusegen.ops.indexing import Marker, Range, Subscript, index
from fusegen.ops.record import OperationError
from fusegen.ops.registry import FUNCTIONS, LAYERS

Result = TypeVar("Result")

# Levels of nesting, calls of functions and models among them; Python's own stack is the bound.
MAXIMUM_DEPTH = 60
# Expressions evaluated; a few functions that call each other twice would run for ever otherwise.
MAXIMUM_STEPS = 200_000

_METHOD_HINTS = {
    "T": "write transpose(x, -2, -1)",
    "mT": "write transpose(x, -2, -1)",
    "shape": "a size has the name that the input's shape gives it",
    "size": "a size has the name that the input's shape gives it",
    "view": "write reshape(x, [...])",
}

BUILTINS: Mapping[str, Value] = {
    **DTYPES,
    **FUNCTIONS,
    **LAYERS,
    "Parameter": TensorClass(Role.PARAMETER),
    "Buffer": TensorClass(Role.BUFFER),
    "inf": math.inf,
    "nan": math.nan,
}


class Expressions(ABC):
    """The value of every kind of expression in a scope; nodes are noted with their place."""

    def __init__(self, definitions: Mapping[str, Definition]) -> None:
        self._definitions = definitions
        self._depth = 0
        self._steps = 0
        self.spans: dict[Node, Span] = {}
        self._kinds: dict[type, Callable[..., Value]] = {
            Name: self._name,
            Number: lambda number, _: number.value,
            String: lambda string, _: string.value,
            Constant: lambda constant, _: constant.value,
            ListDisplay: self._display,
            TupleDisplay: self._display,
            Attribute: self._attribute,
            Index: self._index,
            Call: self._call,
            Unary: self._unary,
            Binary: self._binary,
            Comparison: self._comparison,
            Pipe: self._pipe,
        }

    @abstractmethod
    def apply(self, callee: Value, arguments: Sequence[Argument], span: Span) -> Value:
        """What calling `callee` gives."""

    def evaluate(self, expression: Expression, scope: Scope) -> Value:
        """The value of an expression. Raises Problem for an error in it, and Poisoned where it
        depends on something that already failed."""
        self._steps += 1
        if self._steps == MAXIMUM_STEPS:
            raise Problem(
                f"the model takes more than {MAXIMUM_STEPS:,} steps with its functions and layers "
                "written out",
                expression.span,
                "compile a smaller part of it",
            )
        if self._steps > MAXIMUM_STEPS:
            raise Poisoned  # reported at the step before
        with self.nested(expression.span):
            return self._kinds[type(expression)](expression, scope)

    @contextmanager
    def nested(self, span: Span) -> Iterator[None]:
        """One more level of nesting, at `span`. Raises Problem where there are too many."""
        if self._depth == MAXIMUM_DEPTH:
            raise Problem(
                f"this is nested more than {MAXIMUM_DEPTH} levels deep",
                span,
                "bind parts of it to names",
            )
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def operate(self, span: Span, function: Callable[..., Result], *arguments: object) -> Result:
        """The result of an operation, its nodes noted as made at `span`; an OperationError
        becomes a Problem there."""
        try:
            value = function(*arguments)
        except OperationError as error:
            raise Problem(error.message, span, error.hint) from None
        self.note(value, span)
        return value

    def note(self, value: object, span: Span) -> None:
        """Remember `span` for the nodes that a value brings with it for the first time."""
        stack = list(value) if isinstance(value, tuple) else [value]
        while stack:
            node = stack.pop()
            if isinstance(node, Node) and node not in self.spans:
                self.spans[node] = span
                stack.extend(node.operands)

    def _name(self, name: Name, scope: Scope) -> Value:
        for names in (scope, self._definitions, BUILTINS):
            if name.text in names:
                value = names[name.text]
                if value is POISON:
                    raise Poisoned
                return value
        raise Poisoned  # check_names has reported it

    def _display(self, display: ListDisplay | TupleDisplay, scope: Scope) -> Value:
        return tuple(self.evaluate(item, scope) for item in display.items)

    def _attribute(self, attribute: Attribute, scope: Scope) -> Value:
        owner = self.evaluate(attribute.value, scope)
        name = attribute.name.text
        if isinstance(owner, ModelModule):
            members: dict[str, Value] = {**owner.tensors, **owner.children}
        elif isinstance(owner, LayerModule):
            members = dict(owner.tensors)
        else:
            hint = _METHOD_HINTS.get(name)
            if name in FUNCTIONS:
                hint = f"functions stand alone: {name}(x), or x |> {name}"
            raise Problem(f"{describe(owner)} has no attribute '{name}'", attribute.name.span, hint)
        if name not in members:
            raise Problem(
                f"{describe(owner)} has no tensor or layer '{name}'",
                attribute.name.span,
                nearest(name, members),
            )
        return members[name]

    def _index(self, syntax: Index, scope: Scope) -> Value:
        value = self.evaluate(syntax.value, scope)
        items = tuple(self._item(item, scope) for item in syntax.items)
        if isinstance(value, Node):
            return self.operate(syntax.span, index, value, items)
        if not isinstance(value, tuple):
            raise Problem(
                f"only tensors and lists have elements, but this is {describe(value)}",
                syntax.value.span,
            )
        (position,) = items if len(items) == 1 else (None,)
        if not isinstance(position, int):
            raise Problem("a list is indexed by one constant integer", syntax.span)
        if not -len(value) <= position < len(value):
            raise Problem(f"there is no element {position} in a list of {len(value)}", syntax.span)
        return value[position]

    def _item(self, item: Expression | Slice | Dots, scope: Scope) -> Subscript:
        if isinstance(item, Dots):
            return Marker.ELLIPSIS
        if isinstance(item, Slice):
            step = 1 if item.step is None else self._bound(item.step, scope)
            if not isinstance(step, int):
                raise Problem("the step of a slice must be a constant integer", item.span)
            return Range(self._bound(item.start, scope), self._bound(item.stop, scope), step)
        value = self.evaluate(item, scope)
        if value is None:
            return Marker.NEW_DIM
        if _is_position(value):
            return value
        raise Problem(
            f"an index is an integer, a slice, None or '...', but this is {describe(value)}",
            item.span,
        )

    def _bound(self, part: Expression | None, scope: Scope) -> int | Integer | None:
        if part is None:
            return None
        value = self.evaluate(part, scope)
        if value is None or _is_position(value):
            return value
        raise Problem(f"a slice goes between integers, but this is {describe(value)}", part.span)

    def _call(self, call: Call, scope: Scope) -> Value:
        callee = self.evaluate(call.callee, scope)
        return self.apply(callee, self.arguments(call, scope), call.span)

    def arguments(self, call: Call, scope: Scope) -> list[Argument]:
        """The arguments of a call, evaluated."""
        return [
            Argument(argument.name.text, self.evaluate(argument.value, scope), argument.span)
            if isinstance(argument, Keyword)
            else Argument(None, self.evaluate(argument, scope), argument.span)
            for argument in call.arguments
        ]

    def _unary(self, syntax: Unary, scope: Scope) -> Value:
        operand = self.evaluate(syntax.operand, scope)
        return self.operate(syntax.span, unary, syntax.operator, operand)

    def _binary(self, syntax: Binary, scope: Scope) -> Value:
        spine, first = _left_spine(syntax, lambda pair: pair.left)
        value = self.evaluate(first, scope)
        for pair in spine:
            right = self.evaluate(pair.right, scope)
            value = self.operate(pair.span, binary, pair.operator, value, right)
        return value

    def _comparison(self, comparison: Comparison, scope: Scope) -> Value:
        if len(comparison.parts) > 3:
            raise Poisoned  # check_names has reported the chain
        left, comparator, right = comparison.parts
        assert not isinstance(left, str) and isinstance(comparator, str)
        assert not isinstance(right, str)
        values = (self.evaluate(left, scope), self.evaluate(right, scope))
        return self.operate(comparison.span, binary, comparator, *values)

    def _pipe(self, syntax: Pipe, scope: Scope) -> Value:
        spine, first = _left_spine(syntax, lambda pipe: pipe.value)
        value, place = self.evaluate(first, scope), first.span
        for pipe in spine:
            value = self._stage(pipe.stage, Argument(None, value, place), scope)
            place = pipe.stage.span
        return value

    def _stage(self, stage: Expression, piped: Argument, scope: Scope) -> Value:
        """A pipe's right side with the value from its left as the first argument."""
        arguments = [piped]
        callee = self.evaluate(stage.callee if isinstance(stage, Call) else stage, scope)
        if isinstance(stage, Call):
            if isinstance(callee, Declarable):
                callee = self.evaluate(stage, scope)
            else:
                arguments += self.arguments(stage, scope)
        elif isinstance(callee, Declarable):
            name = callee.name.text if isinstance(callee, Model) else callee.name
            raise Problem(
                f"{describe(callee)} needs its arguments before it can take a tensor",
                stage.span,
                f"write {name}(...), with its arguments in the brackets",
            )
        return self.apply(callee, arguments, stage.span)


def _is_position(value: Value) -> TypeGuard[int | Integer]:
    return isinstance(value, Integer) or (isinstance(value, int) and not isinstance(value, bool))


Chain = TypeVar("Chain", Binary, Pipe)


def _left_spine(top: Chain, left: Callable[[Chain], Expression]) -> tuple[list[Chain], Expression]:
    """The pairs of a chain such as `a + b + c` from the innermost out, and its first operand; a
    loop, because chains may be thousands long."""
    kind = type(top)
    spine = [top]
    first = left(top)
    while isinstance(first, kind):
        spine.append(first)
        first = left(first)
    return spine[::-1], first
