"""What can be said about a program before any shape is known: names, order, recursion, returns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from fusegen.errors import Span
from fusegen.frontend.foreign_names import dtype_here, written_here
from fusegen.frontend.python_names import check_argument, check_input, check_model
from fusegen.frontend.recursion import check_recursion
from fusegen.frontend.report import Report, nearest
from fusegen.frontend.syntax import (
    Binding,
    Comparison,
    Definition,
    Expression,
    Function,
    Input,
    Model,
    Name,
    Return,
    Statement,
    references,
    walk,
)
from fusegen.frontend.values import Problem
from fusegen.ir.dtypes import DType

DTYPES = {dtype.value: dtype for dtype in DType}
THROWAWAY = "_"  # may be bound any number of times, and is never read

# What people write before PyTorch's functions, which stand alone here.
_PYTORCH_PREFIXES = {"torch", "nn", "F", "self"}


class Kind(Enum):
    """What a name in a definition stands for; the value is the word for it in messages."""

    ARGUMENT = "argument"
    INPUT = "input"
    SIZE = "size"
    VALUE = "value"


@dataclass
class _Local:
    kind: Kind
    span: Span
    used: bool = False


@dataclass
class _Scope:
    """The names of one definition so far, and those its body binds further on."""

    later: dict[str, Span]
    locals: dict[str, _Local] = field(default_factory=dict)


def check_names(
    definitions: Sequence[Definition], builtins: Collection[str], report: Report
) -> None:
    """Report unknown, repeated and unused names, recursion, and missing or misplaced statements.

    `builtins` are the names of all operations, layers and constants; a definition may use one
    anew. What is reported here is not reported again when the program is elaborated.
    """
    known: dict[str, Definition] = {}
    for definition in definitions:
        name = definition.name
        if name.text in known:
            first = known[name.text].name.span
            report.error(
                f"'{name.text}' is defined twice",
                name.span,
                f"the first definition is in line {first.line}; rename one of them",
            )
        known.setdefault(name.text, definition)
    for definition in definitions:
        _DefinitionCheck(definition, known, builtins, report).run()
    check_recursion(known, report)


class _DefinitionCheck:
    """Walks one model or function in the order of its statements."""

    def __init__(
        self,
        definition: Definition,
        known: dict[str, Definition],
        builtins: Collection[str],
        report: Report,
    ) -> None:
        self._definition = definition
        self._known = known
        self._builtins = builtins
        self._report = report
        self._scope = _Scope(dict(reversed(list(_bound_names(definition.statements)))))

    def run(self) -> None:
        definition = self._definition
        if isinstance(definition, Model):
            self._check_python(check_model, definition.name)
        for parameter in definition.parameters:
            if isinstance(definition, Model):
                self._check_python(check_argument, parameter.name)
            if parameter.default is not None:
                self._use(parameter.default)
            self._declare(parameter.name, Kind.ARGUMENT)
        returned: Return | None = None
        for statement in definition.statements:
            if returned is not None:
                self._report.error(
                    "this statement comes after 'return' and would never run",
                    statement.span,
                    "move it up, or remove it",
                )
                break
            self._statement(statement)
            returned = statement if isinstance(statement, Return) else None
        if returned is None:
            self._report.error(
                f"{self._shown()} has no 'return'",
                definition.name.span,
                "end its body with: return value",
            )
        self._report_unused()

    def _shown(self) -> str:
        kind = "model" if isinstance(self._definition, Model) else "function"
        return f"{kind} '{self._definition.name.text}'"

    def _check_python(self, check: Callable[[str, Span], None], name: Name) -> None:
        try:
            check(name.text, name.span)
        except Problem as problem:
            self._report.error(problem.message, problem.span, problem.hint)

    def _statement(self, statement: Statement) -> None:
        if isinstance(statement, Input):
            self._input(statement)
        elif isinstance(statement, Binding):
            self._use(statement.value)
            for target in statement.targets.names:
                self._declare(target, Kind.VALUE)
        else:
            self._use(*statement.values)

    def _input(self, statement: Input) -> None:
        if not isinstance(self._definition, Model):
            self._report.error(
                "a function has no inputs of its own",
                statement.span,
                "what it works on is an argument: fn name(x): ...",
            )
        if statement.dtype is not None and statement.dtype.text not in DTYPES:
            self._report.error(
                f"'{statement.dtype.text}' is not a dtype",
                statement.dtype.span,
                dtype_here(statement.dtype.text)
                or nearest(statement.dtype.text, DTYPES)
                or f"dtypes are {', '.join(DTYPES)}",
            )
        for size in statement.sizes:
            if isinstance(size, Name) and size.text not in self._scope.locals:
                self._warn_of_misspelt_size(size)
                self._scope.locals[size.text] = _Local(Kind.SIZE, size.span, used=True)
            else:
                self._use(size, hint="a size bound at run time stands alone: [batch, features]")
        self._check_python(check_input, statement.name)
        self._declare(statement.name, Kind.INPUT)

    def _warn_of_misspelt_size(self, size: Name) -> None:
        arguments = [n for n, local in self._scope.locals.items() if local.kind is Kind.ARGUMENT]
        close = [name for name in arguments if name.rstrip("s") == size.text.rstrip("s")]
        if close:
            self._report.warning(
                f"'{size.text}' is a size known only at run time, not the argument '{close[0]}'",
                size.span,
                f"write '{close[0]}' if you mean the argument",
            )

    def _declare(self, name: Name, kind: Kind) -> None:
        if name.text == THROWAWAY and kind is Kind.VALUE:
            return
        before = self._scope.locals.get(name.text)
        if before is None:
            self._scope.locals[name.text] = _Local(kind, name.span)
            return
        self._report.error(
            f"'{name.text}' is already the name of {_article(before.kind)}",
            name.span,
            f"it is bound in line {before.span.line}; a name is bound once, so choose another",
        )

    def _use(self, *expressions: Expression, hint: str | None = None) -> None:
        """Note what the expressions use; `hint` is the mend for a name that none here is like."""
        for name in references(*expressions):
            local = self._scope.locals.get(name.text)
            if local is not None:
                local.used = True
            elif name.text not in self._known and name.text not in self._builtins:
                self._report_unknown(name, hint)
        for piece in walk(*expressions):
            if isinstance(piece, Comparison) and len(piece.parts) > 3:
                self._report.error(
                    "comparisons cannot be chained",
                    piece.span,
                    "write (a < b) and (b < c)",
                )

    def _report_unknown(self, name: Name, otherwise: str | None) -> None:
        text, later = name.text, self._scope.later.get(name.text)
        message, hint = f"'{text}' is not known here", None
        if text == THROWAWAY:
            message, hint = "'_' holds no value", "bind the value to a name to use it"
        elif later is not None:
            message = f"'{text}' is used before it is defined"
            hint = f"it is defined in line {later.line}; move that up"
        elif text in _PYTORCH_PREFIXES:
            hint = f"functions, layers and the model's own names stand alone, without '{text}.'"
        elif isinstance(self._definition, Function) and self._is_of_a_model(text):
            hint = f"a function sees only its own arguments: pass '{text}' as one"
        else:
            names = {*self._scope.locals, *self._known, *self._builtins}
            hint = written_here(text, self._builtins) or nearest(text, names) or otherwise
        self._report.error(message, name.span, hint)

    def _is_of_a_model(self, name: str) -> bool:
        models = (d for d in self._known.values() if isinstance(d, Model))
        return any(
            name in (bound for bound, _ in _bound_names(model.statements))
            or name in (parameter.name.text for parameter in model.parameters)
            for model in models
        )

    def _report_unused(self) -> None:
        for name, local in self._scope.locals.items():
            if not local.used and not name.startswith("_"):
                self._report.warning(
                    f"{local.kind.value} '{name}' is never used",
                    local.span,
                    "remove it, or start its name with '_' to keep it",
                )


def _bound_names(statements: Sequence[Statement]) -> Iterator[tuple[str, Span]]:
    for statement in statements:
        if isinstance(statement, Input):
            yield statement.name.text, statement.name.span
        elif isinstance(statement, Binding):
            yield from ((target.text, target.span) for target in statement.targets.names)


def _article(kind: Kind) -> str:
    return f"{'an' if kind.value[0] in 'aeiou' else 'a'} {kind.value}"
