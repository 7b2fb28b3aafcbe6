"""What is the same for a whole row, so that it can be computed once, ahead of the loop."""

from __future__ import annotations

from fusegen.ir.integers import Symbol
from fusegen.plan.expressions import Accumulator, Expression, PartialStates, Reduced, Select


def varying(
    roots: tuple[Expression, ...], kept: frozenset[Expression], column: Symbol
) -> dict[Expression, bool]:
    """Whether each expression below `roots` differs from column to column, in an order in which
    arguments come first.

    `kept` are known for each column: nothing below them is of interest. A selection counts as one
    that differs, and what only its sides need is left out: it may lie outside its tensor.
    """
    varies: dict[Expression, bool] = {}
    stack: list[tuple[Expression, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        expression, visited = stack.pop()
        if visited:
            varies[expression] = (
                expression in kept
                or any(varies[a] for a in _hoisted_arguments(expression))
                or column in expression.symbols
                or isinstance(expression, (Accumulator, PartialStates, Select))
            )
        elif expression not in varies:
            stack.append((expression, True))
            if expression not in kept:
                stack.extend((a, False) for a in reversed(_hoisted_arguments(expression)))
    return varies


def _hoisted_arguments(expression: Expression) -> tuple[Expression, ...]:
    """What may be computed whether or not the expression is: not the sides of a selection."""
    return () if isinstance(expression, (Select, Reduced)) else expression.arguments
