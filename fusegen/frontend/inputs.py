"""The declared inputs of a model: as placeholders, or against the tensors a call gives."""

from __future__ import annotations

from collections.abc import Callable

from fusegen.errors import Span
from fusegen.frontend.names import DTYPES
from fusegen.frontend.syntax import Expression, Input, Name
from fusegen.frontend.values import Poisoned, Problem, Scope, Value, describe
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Attributes, Node, Placeholder, Role, TensorType
from fusegen.ir.integers import Integer

Evaluate = Callable[[Expression, Scope], Value]


def placeholder(declared: Input, scope: Scope, evaluate: Evaluate, dtype: DType) -> Node:
    """The node of an input of the compiled model; a name that is new in its shape becomes a
    symbolic size in `scope`. An input without a dtype has `dtype`.

    Raises Problem for a size that is neither a name nor a constant from 0 up.
    """
    shape = []
    for expression in declared.sizes:
        if isinstance(expression, Name) and expression.text not in scope:
            scope[expression.text] = Integer.symbol(expression.text)
        shape.append(_size(expression, scope, evaluate))
    return Node(
        Placeholder(Role.INPUT.value, Role.INPUT),
        (),
        Attributes(),
        TensorType(tuple(shape), _dtype(declared) or dtype),
        name=declared.name.text,
        span=declared.name.span,
    )


def match_given(
    declared: Input, given: Value, span: Span, scope: Scope, evaluate: Evaluate, callee: str
) -> Node:
    """The tensor a call gives for an input; a name that is new in the declared shape is bound in
    `scope` to the given size.

    Raises Problem at `span`, the place of the call's argument, for a value that is no tensor, or
    one of another rank, size or dtype.
    """
    name = declared.name.text
    if not isinstance(given, Node):
        raise Problem(f"input '{name}' of {callee} must be a tensor, not {describe(given)}", span)
    dtype = _dtype(declared) or given.dtype
    expected: list[str] = []
    fits = given.type.rank == len(declared.sizes) and dtype is given.dtype
    for position, expression in enumerate(declared.sizes):
        actual = given.shape[position] if position < given.type.rank else None
        if isinstance(expression, Name) and expression.text not in scope:
            expected.append(expression.text)
            if actual is not None:
                scope[expression.text] = actual if actual.constant is None else actual.constant
            continue
        size = _size(expression, scope, evaluate)
        expected.append(str(size))
        fits = fits and actual == size
    if not fits:
        raise Problem(
            f"input '{name}' of {callee} is {dtype.value}[{', '.join(expected)}], "
            f"but it is given {given.type}",
            span,
            f"convert it first: to(x, {dtype.value})" if dtype is not given.dtype else None,
        )
    return given


def _dtype(declared: Input) -> DType | None:
    if declared.dtype is None:
        return None
    if declared.dtype.text not in DTYPES:
        raise Poisoned  # check_names has reported it
    return DTYPES[declared.dtype.text]


def _size(expression: Expression, scope: Scope, evaluate: Evaluate) -> Integer:
    value = evaluate(expression, scope)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return Integer.of(value)
    if isinstance(value, Integer) and isinstance(expression, Name):
        return value
    raise Problem(
        f"a size of an input is a name, or a constant from 0 up, but this is {describe(value)}",
        expression.span,
        "give the whole dimension a name of its own" if isinstance(value, Integer) else None,
    )
