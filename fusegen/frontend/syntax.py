"""The syntax tree: one class for each rule of grammar/fuse.lark, under the rule's name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from lark import Token, Transformer_NonRecursive, Tree
from lark.tree import Meta

from fusegen.errors import Span

MAXIMUM_INTEGER = 2**63 - 1  # of a number in a program, and of what is computed from numbers


@dataclass(frozen=True, eq=False)
class Syntax:
    """A piece of the source; its fields are the rule's children in order.

    Where `variadic` is set, the last field is a tuple of all the children that are left.
    """

    span: Span
    variadic: ClassVar[bool] = False


@dataclass(frozen=True, eq=False)
class Name(Syntax):
    text: str


@dataclass(frozen=True, eq=False)
class Number(Syntax):
    value: int | float


@dataclass(frozen=True, eq=False)
class String(Syntax):
    value: str


@dataclass(frozen=True, eq=False)
class Constant(Syntax):
    value: bool | None


@dataclass(frozen=True, eq=False)
class ListDisplay(Syntax):
    items: tuple[Expression, ...]
    variadic = True


@dataclass(frozen=True, eq=False)
class TupleDisplay(Syntax):
    items: tuple[Expression, ...]
    variadic = True


@dataclass(frozen=True, eq=False)
class Attribute(Syntax):
    value: Expression
    name: Name


@dataclass(frozen=True, eq=False)
class Slice(Syntax):
    start: Expression | None
    stop: Expression | None
    step: Expression | None


@dataclass(frozen=True, eq=False)
class Dots(Syntax):
    """`...` in an index."""


@dataclass(frozen=True, eq=False)
class Index(Syntax):
    value: Expression
    items: tuple[Expression | Slice | Dots, ...]
    variadic = True


@dataclass(frozen=True, eq=False)
class Keyword(Syntax):
    name: Name
    value: Expression


@dataclass(frozen=True, eq=False)
class Call(Syntax):
    callee: Expression
    arguments: tuple[Expression | Keyword, ...]
    variadic = True


@dataclass(frozen=True, eq=False)
class Unary(Syntax):
    operator: str
    operand: Expression


@dataclass(frozen=True, eq=False)
class Binary(Syntax):
    left: Expression
    operator: str
    right: Expression


@dataclass(frozen=True, eq=False)
class Comparison(Syntax):
    """Operands with comparators between them; more than one comparator is a chain."""

    parts: tuple[Expression | str, ...]
    variadic = True


@dataclass(frozen=True, eq=False)
class Pipe(Syntax):
    value: Expression
    stage: Expression


Expression = (
    Name
    | Number
    | String
    | Constant
    | ListDisplay
    | TupleDisplay
    | Attribute
    | Index
    | Call
    | Unary
    | Binary
    | Comparison
    | Pipe
)


@dataclass(frozen=True, eq=False)
class Input(Syntax):
    name: Name
    dtype: Name | None
    sizes: tuple[Expression, ...]
    variadic = True


@dataclass(frozen=True, eq=False)
class Targets(Syntax):
    names: tuple[Name, ...]
    variadic = True


@dataclass(frozen=True, eq=False)
class Binding(Syntax):
    targets: Targets
    value: Expression


@dataclass(frozen=True, eq=False)
class Return(Syntax):
    values: tuple[Expression, ...]
    variadic = True


Statement = Input | Binding | Return


@dataclass(frozen=True, eq=False)
class Block(Syntax):
    statements: tuple[Statement, ...]
    variadic = True


@dataclass(frozen=True, eq=False)
class Parameter(Syntax):
    name: Name
    default: Expression | None


@dataclass(frozen=True, eq=False)
class Parameters(Syntax):
    items: tuple[Parameter, ...]
    variadic = True


@dataclass(frozen=True, eq=False)
class Function(Syntax):
    """A function; its body is a block, or the one expression it returns."""

    name: Name
    declared: Parameters
    body: Block | Expression

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The function's parameters."""
        return self.declared.items

    @property
    def statements(self) -> tuple[Statement, ...]:
        """The body as statements: a single expression is what it returns."""
        if isinstance(self.body, Block):
            return self.body.statements
        return (Return(self.body.span, (self.body,)),)


@dataclass(frozen=True, eq=False)
class Model(Syntax):
    name: Name
    declared: Parameters | None
    body: Block

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The model's arguments; none where it has no brackets."""
        return self.declared.items if self.declared else ()

    @property
    def statements(self) -> tuple[Statement, ...]:
        """The statements of its body."""
        return self.body.statements


Definition = Model | Function

# The class for the subtrees of each rule.
RULES: dict[str, type[Syntax]] = {
    "name": Name,
    "number": Number,
    "string": String,
    "constant": Constant,
    "list_display": ListDisplay,
    "tuple_display": TupleDisplay,
    "attribute": Attribute,
    "slice": Slice,
    "dots": Dots,
    "index": Index,
    "keyword": Keyword,
    "call": Call,
    "unary": Unary,
    "binary": Binary,
    "comparison": Comparison,
    "pipe": Pipe,
    "input": Input,
    "targets": Targets,
    "binding": Binding,
    "return": Return,
    "block": Block,
    "parameter": Parameter,
    "parameters": Parameters,
    "function": Function,
    "model": Model,
}

_CONSTANTS = {"True": True, "False": False, "None": None}


def definitions(tree: Tree[Token]) -> tuple[Definition, ...]:
    """The models and functions of a parse tree of the rule `program`, in source order."""
    found: tuple[Definition, ...] = _Builder().transform(tree)
    return found


class _Builder(Transformer_NonRecursive[Token, Any]):
    """Makes the class with the rule's name out of each subtree, without recursion."""

    def __default__(self, data: str, children: list[Any], meta: Meta) -> Any:
        if data == "program":
            return tuple(children)
        kind: Any = RULES[str(data)]
        span = Span(meta.line, meta.column, meta.end_line, meta.end_column)
        if not kind.variadic:
            return kind(span, *children)
        fixed = len(fields(kind)) - 2
        return kind(span, *children[:fixed], tuple(children[fixed:]))

    def __default_token__(self, token: Token) -> Any:
        text = str(token)
        if token.type == "NUMBER":
            return int(text) if text.replace("_", "").isdecimal() else float(text)
        if token.type == "STRING":
            return text[1:-1]
        return _CONSTANTS.get(text, text) if token.type in ("TRUE", "FALSE", "NONE") else text


def walk(*roots: Syntax) -> Iterator[Syntax]:
    """The roots and everything below them, in source order, without recursion."""
    stack: list[Any] = list(reversed(roots))
    while stack:
        node = stack.pop()
        if isinstance(node, Syntax):
            yield node
            stack.extend(reversed([getattr(node, field.name) for field in fields(node)]))
        elif isinstance(node, tuple):
            stack.extend(reversed(node))


def references(*roots: Syntax | None) -> Iterator[Name]:
    """The names that are read below the roots, in source order: not those that are bound there,
    nor attributes, keywords and dtypes of inputs."""
    skipped: set[Name] = set()
    for piece in walk(*(root for root in roots if root is not None)):
        if isinstance(piece, (Attribute, Keyword, Parameter)):
            skipped.add(piece.name)
        elif isinstance(piece, Targets):
            skipped.update(piece.names)
        elif isinstance(piece, Input):
            skipped.update(name for name in (piece.name, piece.dtype) if name is not None)
        elif isinstance(piece, Name) and piece not in skipped:
            yield piece


def outline(*roots: Syntax) -> Iterator[str]:
    """A line for each piece below the roots: its rule, what it says, and where it stands."""
    stack: list[tuple[int, Syntax]] = [(0, root) for root in reversed(roots)]
    while stack:
        depth, piece = stack.pop()
        children: list[Any] = []
        for child in (getattr(piece, field.name) for field in fields(piece)[1:]):
            children.extend(child if isinstance(child, tuple) else (child,))
        said = [repr(child) for child in children if isinstance(child, (str, int, float))]
        place = f"{piece.span.line}:{piece.span.column}"
        yield "  " * depth + " ".join((type(piece).__name__, *said, place))
        below = [child for child in children if isinstance(child, Syntax)]
        stack.extend((depth + 1, child) for child in reversed(below))
