"""Kernel expressions as C++ statements: one `const` variable for each value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from fusegen.codegen.c_text import compute_type, factor, integer, number, storage_type
from fusegen.codegen.conditions import Condition
from fusegen.codegen.names import Names
from fusegen.ir.dtypes import DType, promote
from fusegen.ir.graph import AttributeValue
from fusegen.ir.integers import Atom
from fusegen.ops.operands import by_parameter
from fusegen.ops.pointwise.arithmetic import DIVIDE
from fusegen.ops.pointwise.logic import WHERE
from fusegen.ops.primitive.random_numbers import KEPT
from fusegen.ops.record import ParameterKind
from fusegen.plan.expressions import (
    Compute,
    Expression,
    Literal,
    Load,
    Position,
    Select,
    Size,
)
from fusegen.plan.tolerance import NARROW

LoadText = Callable[[Load], str]


class GuardedLoadText(Protocol):
    """The right side for a load that may be read under some conditions only."""

    def __call__(self, load: Load, conditions: tuple[Condition, ...] = (), /) -> str: ...


# The name of a condition that is the same for a whole vector, and whether it is met whatever else
# holds; None where it must be evaluated where it stands.
ConditionText = Callable[[Condition, bool], "str | None"]
# The text for a random choice that is made with its neighbours' ahead of the elements, given what
# is known there already; None for one that has to be made for each element.
ChoiceText = Callable[[Compute, Mapping[Expression, str]], "str | None"]


@dataclass
class Statements:
    """Writes expressions as statements into `lines`, remembering which variable holds what.

    `known` maps expressions to the text that stands for them; `symbols` gives the C++ names of
    loop variables and sizes; `load` writes a load's right side in its compute type, `guarded_load`
    does so where only one side of a selection may be read, so nothing may be loaded ahead but under
    the conditions that choose it; `condition` names those that are known ahead. Statements under a
    condition are not `is_certain` to be met.
    `choice` writes random choices.
    `divisors` names the prepared `Divisor`s of what many elements are divided by. Quicker functions
    will do for results of 16 bits and for the values in `tolerant`; of those in `multiplied` the
    reciprocals are multiplied out.
    """

    names: Names
    symbols: Mapping[Atom, str]
    load: LoadText
    guarded_load: GuardedLoadText
    known: dict[Expression, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    divisors: Mapping[Expression, str] = field(default_factory=dict)
    tolerant: frozenset[Expression] = frozenset()
    multiplied: frozenset[Expression] = frozenset()
    choice: ChoiceText = lambda choice, known: None
    condition: ConditionText = lambda condition, is_certain: None
    is_certain: bool = True
    known_before: Mapping[Expression, str] = field(init=False)

    def __post_init__(self) -> None:
        self.known_before = dict(self.known)

    def value(self, root: Expression) -> str:
        """The text that stands for `root`, after the statements it needs have been written."""
        stack: list[Expression] = [root]
        while stack:
            expression = stack[-1]
            if expression in self.known:
                stack.pop()
                continue
            if isinstance(expression, Compute) and expression.operation is KEPT:
                made = self.choice(expression, self.known_before)
                if made is not None:
                    self.known[expression] = made
                    continue
            needed = [a for a in _statement_arguments(expression) if a not in self.known]
            if needed:
                stack.extend(reversed(needed))
                continue
            stack.pop()
            self._write(expression)
        return self.known[root]

    def drain(self) -> tuple[str, ...]:
        """The statements written since the last call."""
        lines, self.lines = tuple(self.lines), []
        return lines

    def _write(self, expression: Expression) -> None:
        if isinstance(expression, Select) and not self._is_plain(expression):
            self._write_branches(expression)
            return
        text = self._text(expression)
        if isinstance(expression, (Literal, Size, Position)):
            self.known[expression] = text
            return
        suffix = "_value" if isinstance(expression, Load) else ""
        variable = self.names.fresh(f"{expression.name}{suffix}")
        self.lines.append(f"const {compute_type(expression.dtype)} {variable} = {text};")
        self.known[expression] = variable

    def _text(self, expression: Expression) -> str:
        """The expression as C++ over what is known."""
        if expression in self.known:
            return self.known[expression]
        if isinstance(expression, Literal):
            return number(expression.value, expression.dtype)
        if isinstance(expression, Size):
            size = integer(expression.size, self.symbols)
            return f"static_cast<{compute_type(expression.dtype)}>({size})"
        if isinstance(expression, Position):
            return integer(expression.position, self.symbols)
        if isinstance(expression, Load):
            return self.load(expression)
        if isinstance(expression, Select):
            *choices, last = self._branches(expression)
            texts = [f"{self._compared(c)} ? {self._side(c)} : " for c in choices]
            return "".join(texts) + self._side(last)
        assert isinstance(expression, Compute), f"{expression.name} is not available here"
        return self._compute(expression)

    def _branches(self, select: Select) -> list[_Branch]:
        """The sides of a selection and those behind it, each with the conditions that choose it."""
        found: list[_Branch] = []
        failed: tuple[Condition, ...] = ()
        expression: Expression = select
        while isinstance(expression, Select) and expression not in self.known:
            condition = Condition(expression.coordinate, expression.bound)
            found.append(_Branch((*failed, condition), expression.below))
            failed = (*failed, condition.negated)
            expression = expression.otherwise
        return [*found, _Branch(failed, expression)]

    def _compared(self, branch: _Branch) -> str:
        """The condition that a branch has for itself; that of the first one is met in any case, and
        so is another one of the same coordinate."""
        own = branch.met[-1]
        is_certain = self.is_certain and own.coordinate == branch.met[0].coordinate
        named = self.condition(own, is_certain)
        if named is not None:
            return named
        coordinate = factor(own.coordinate, self.symbols)
        return f"{coordinate} < {factor(own.bound, self.symbols)}"

    def _is_plain(self, select: Select) -> bool:
        """Whether every side is at most a load, so that a conditional expression will do."""
        return all(
            branch.side in self.known or isinstance(branch.side, (Literal, Size, Load))
            for branch in self._branches(select)
        )

    def _side(self, branch: _Branch) -> str:
        if isinstance(branch.side, Load) and branch.side not in self.known:
            text = self.guarded_load(branch.side, branch.met)
            return f"({text})" if "?" in text else text
        return self._text(branch.side)

    def _write_branches(self, select: Select) -> None:
        """Only the chosen side may be evaluated: each is a block of its own."""
        variable = self.names.fresh(select.name)
        self.lines.append(f"{compute_type(select.dtype)} {variable};")
        *_, last = branches = self._branches(select)
        for position, branch in enumerate(branches):
            is_last = branch is last
            opening = "{" if is_last else f"if ({self._compared(branch)}) {{"
            self.lines.append(f"}} else {opening}" if position else opening)
            load = _under(self.guarded_load, branch.met)
            inner = Statements(
                self.names,
                self.symbols,
                load,
                load,
                {**self.known},
                divisors=self.divisors,
                tolerant=self.tolerant,
                multiplied=self.multiplied,
                condition=self.condition,
                is_certain=False,
            )
            value = inner.value(branch.side)
            self.lines += [f"    {line}" for line in (*inner.drain(), f"{variable} = {value};")]
        self.lines.append("}")
        self.known[select] = variable

    def _compute(self, expression: Compute) -> str:
        operation = expression.operation
        is_tolerant = expression in self.tolerant or expression.dtype in NARROW
        if operation is DIVIDE and expression.operands[1] in self.divisors:
            numerator = self._operand(expression.operands[0], expression.operands[1].dtype)
            function = "near_quotient" if is_tolerant else "quotient"
            return f"{self.divisors[expression.operands[1]]}.{function}({numerator})"
        groups = by_parameter(operation.parameters, expression.operands, expression.attributes)
        common = _common_dtype(expression)
        texts: dict[str, str] = {}
        for name, operands in groups.items():
            if operands:
                (operand,) = operands
                is_condition = operation is WHERE and name == "condition"
                texts[name] = self._operand(operand, DType.BOOL if is_condition else common)
        for parameter in operation.parameters:
            if parameter.name not in texts and parameter.name in expression.attributes:
                value = expression.attributes[parameter.name]
                texts[parameter.name] = _attribute(value, parameter.kind, common)
        near = operation.near if is_tolerant else None
        if near and expression in self.multiplied:
            near = near.multiplied
        text = near.cuda if near else operation.cuda
        return text.format(**texts)

    def _operand(self, operand: Expression, common: DType) -> str:
        text = self.known[operand]
        plain = operand.dtype.compute is common.compute
        return text if plain else f"convert<{compute_type(common)}>({text})"


@dataclass(frozen=True)
class _Branch:
    """A side of a selection, and the conditions `met` where it is chosen: of those that end in it,
    the last one is its own."""

    met: tuple[Condition, ...]
    side: Expression


def _under(load: GuardedLoadText, outer: tuple[Condition, ...]) -> GuardedLoadText:
    """Loads under some conditions besides their own."""

    def guarded(inner: Load, conditions: tuple[Condition, ...] = ()) -> str:
        return load(inner, (*outer, *conditions))

    return guarded


def _statement_arguments(expression: Expression) -> Iterable[Expression]:
    """The arguments that get statements of their own before the expression."""
    return () if isinstance(expression, Select) else expression.arguments


def _common_dtype(expression: Compute) -> DType:
    """The dtype the operands are promoted to; truth values do not take part beside others."""
    dtypes = [o.dtype for o in expression.operands if o.dtype is not DType.BOOL]
    if not dtypes:
        return DType.BOOL if expression.operands else expression.dtype
    common: DType = dtypes[0]
    for dtype in dtypes[1:]:
        common = promote(common, dtype)
    return common


def _attribute(value: AttributeValue, kind: ParameterKind, common: DType) -> str:
    if isinstance(value, DType):
        return storage_type(value)
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or kind is ParameterKind.FLAG:
        return "true" if value else "false"
    if isinstance(value, int) and kind is ParameterKind.INTEGER:
        return str(value)
    assert isinstance(value, (int, float)), f"a pointwise attribute of value {value!r}"
    return number(value, common if common.is_float or isinstance(value, int) else DType.FLOAT32)
