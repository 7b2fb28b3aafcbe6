"""Kernel expressions as C++ statements: one `const` variable for each value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from fusegen.codegen.c_text import compute_type, factor, integer, number, storage_type
from fusegen.codegen.names import Names
from fusegen.ir.dtypes import DType, promote
from fusegen.ir.graph import AttributeValue
from fusegen.ir.integers import Symbol
from fusegen.ops.operands import by_parameter
from fusegen.ops.record import ParameterKind
from fusegen.plan.expressions import (
    Compute,
    Expression,
    Literal,
    Load,
    Select,
    Size,
)

LoadText = Callable[[Load], str]


@dataclass
class Statements:
    """Writes expressions as statements into `lines`, remembering which variable holds what.

    `known` maps expressions to the text that stands for them; `symbols` gives the C++ names of
    loop variables and sizes; `load` writes a load's right side in its storage type, `guarded_load`
    does so where only one side of a selection may be read, so nothing may be loaded ahead.
    """

    names: Names
    symbols: Mapping[Symbol, str]
    load: LoadText
    guarded_load: LoadText
    known: dict[Expression, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def value(self, root: Expression) -> str:
        """The text that stands for `root`, after the statements it needs have been written."""
        stack: list[Expression] = [root]
        while stack:
            expression = stack[-1]
            if expression in self.known:
                stack.pop()
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
        if isinstance(expression, (Literal, Size)):
            self.known[expression] = self._inline(expression, self.load)
            return
        text = self._inline(expression, self.load)
        suffix = "_value" if isinstance(expression, Load) else ""
        variable = self.names.fresh(f"{expression.name}{suffix}")
        self.lines.append(f"const {compute_type(expression.dtype)} {variable} = {text};")
        self.known[expression] = variable

    def _inline(self, expression: Expression, load: LoadText) -> str:
        """The expression as one C++ expression over what is known; the arguments of a selection,
        which only the chosen side may evaluate, are written out in full."""
        if expression in self.known:
            return self.known[expression]
        if isinstance(expression, Literal):
            return number(expression.value, expression.dtype)
        if isinstance(expression, Size):
            size = integer(expression.size, self.symbols)
            return f"static_cast<{compute_type(expression.dtype)}>({size})"
        if isinstance(expression, Load):
            text = load(expression)
            if expression.dtype.compute is expression.dtype:
                return text
            return f"convert<{compute_type(expression.dtype)}>({text})"
        if isinstance(expression, Select):
            condition = (
                f"{factor(expression.coordinate, self.symbols)} < "
                f"{factor(expression.bound, self.symbols)}"
            )
            below, otherwise = (self._inline(a, self.guarded_load) for a in expression.arguments)
            return f"{condition} ? ({below}) : ({otherwise})"
        assert isinstance(expression, Compute), f"{expression.name} is not available here"
        return self._compute(expression, load)

    def _compute(self, expression: Compute, load: LoadText) -> str:
        operation = expression.operation
        groups = by_parameter(operation.parameters, expression.operands, expression.attributes)
        common = _common_dtype(expression)
        texts: dict[str, str] = {}
        for name, operands in groups.items():
            if operands:
                (operand,) = operands
                texts[name] = self._operand(operand, common, load)
        for parameter in operation.parameters:
            if parameter.name not in texts and parameter.name in expression.attributes:
                value = expression.attributes[parameter.name]
                texts[parameter.name] = _attribute(value, parameter.kind, common)
        return operation.cuda.format(**texts)

    def _operand(self, operand: Expression, common: DType, load: LoadText) -> str:
        text = self._inline(operand, load)
        text = text if operand in self.known else f"({text})"
        plain = operand.dtype is DType.BOOL or operand.dtype.compute is common.compute
        return text if plain else f"convert<{compute_type(common)}>({text})"


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
