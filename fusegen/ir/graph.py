"""The graph: what a model computes, as a DAG of typed operations.

Nodes are immutable and compare by identity; a rewrite builds new nodes and shares the old ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from fusegen.errors import Span
from fusegen.ir.dtypes import DType
from fusegen.ir.integers import Integer, product

Shape = tuple[Integer, ...]
AttributeValue = bool | int | float | str | DType | Integer | tuple["AttributeValue", ...] | None


@dataclass(frozen=True)
class TensorType:
    """The shape and element type of a value."""

    shape: Shape
    dtype: DType

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def count(self) -> Integer:
        """The number of elements."""
        return product(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype.value}[{', '.join(str(size) for size in self.shape)}]"


@dataclass(frozen=True)
class Attributes(Mapping[str, AttributeValue]):
    """An operation's arguments that are not tensors, by parameter name; hashable."""

    items_: tuple[tuple[str, AttributeValue], ...] = ()

    @staticmethod
    def of(**values: AttributeValue) -> Attributes:
        """Attributes from keywords, in the order given."""
        return Attributes(tuple(values.items()))

    def __getitem__(self, name: str) -> AttributeValue:
        for key, value in self.items_:
            if key == name:
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (key for key, _ in self.items_)

    def __len__(self) -> int:
        return len(self.items_)

    def flag(self, name: str) -> bool:
        """The attribute as a bool."""
        return bool(self[name])

    def integer(self, name: str) -> int:
        """The attribute as an int."""
        value = self[name]
        assert isinstance(value, int)
        return value

    def number(self, name: str) -> float:
        """The attribute as a float."""
        value = self[name]
        assert isinstance(value, (int, float))
        return float(value)

    def text(self, name: str) -> str:
        """The attribute as a string."""
        value = self[name]
        assert isinstance(value, str)
        return value

    def dtype(self, name: str) -> DType:
        """The attribute as a dtype."""
        value = self[name]
        assert isinstance(value, DType)
        return value

    def integers(self, name: str) -> tuple[int, ...]:
        """The attribute as a tuple of ints (dims, kernel sizes); a single int is a tuple of one."""
        value = self[name]
        if isinstance(value, int):
            return (value,)
        assert isinstance(value, tuple)
        return tuple(item for item in value if isinstance(item, int))

    def sizes(self, name: str) -> tuple[Integer, ...]:
        """The attribute as a tuple of symbolic sizes."""
        value = self[name]
        items = value if isinstance(value, tuple) else (value,)
        return tuple(Integer.of(i) for i in items if isinstance(i, (int, Integer)))


@dataclass(frozen=True)
class Operation:
    """What a node does. The records in `fusegen.ops` extend this; the graph only needs the name."""

    name: str


@dataclass(frozen=True, eq=False)
class Node:
    """One value: the operation that makes it, what it is made from, and its type.

    `name` is the user's name for it, if any (`gemm`, `x`, `multiply_weight`); `span` is where in
    the source it stands. `origin` is the operation the user wrote, for a node that is a part of it.
    """

    operation: Operation
    operands: tuple[Node, ...]
    attributes: Attributes
    type: TensorType
    name: str | None = None
    span: Span | None = None
    origin: str | None = None

    @property
    def written_as(self) -> str:
        """The operation as the user wrote it."""
        return self.origin or self.operation.name

    @property
    def shape(self) -> Shape:
        """The sizes of its dimensions."""
        return self.type.shape

    @property
    def dtype(self) -> DType:
        """Its element type."""
        return self.type.dtype


class Role(Enum):
    """Where a placeholder's tensor comes from."""

    INPUT = "input"
    PARAMETER = "parameter"
    BUFFER = "buffer"
    SEED = "seed"  # drawn for each call in training


@dataclass(frozen=True)
class Placeholder(Operation):
    """A tensor handed in from outside: a model input, or a parameter or buffer of the module.

    `path` is the attribute path in the module (`gemm.weight`), which is the `state_dict` key.
    """

    role: Role = Role.INPUT
    path: str = ""


def shown_name(node: Node) -> str:
    """The user's name for what a placeholder stands for: a parameter's or buffer's attribute path
    in the module, an input's own name."""
    assert isinstance(node.operation, Placeholder)
    return node.operation.path or node.name or "input"


@dataclass(frozen=True)
class LayerInstance:
    """A `torch.nn` layer the module holds: `self.<path> = nn.<kind>(<arguments>)`.

    `path` has dots where models are nested. `kind` is the class in `torch.nn`, or "Parameter" or
    "Buffer" for a bare tensor, whose arguments are `shape`, `dtype` and `init`.
    """

    path: str
    kind: str
    arguments: Attributes


@dataclass(frozen=True)
class Output:
    """One returned value, and the name to show for it."""

    name: str
    node: Node


@dataclass(frozen=True)
class StatisticsUpdate:
    """A batch norm in training: fold this batch's mean and unbiased variance, both of shape
    (channels,), into the running statistics of the layer at `path` after each forward."""

    path: str
    mean: Node
    variance: Node


@dataclass(frozen=True)
class Graph:
    """A model elaborated for given constants and dtype.

    `inputs` in the order of the model's declaration; `tensors` are its parameters and buffers in
    the order of the module's `state_dict`; `arguments` are the constants it was made with. `saved`
    are intermediate values that a backward needs (`fusegen.passes.differentiate`). `dropping` are
    the paths of the modules whose training mode makes its dropouts drop, "" for the model itself;
    what they draw from, a scalar int64, is the last of the `tensors` then.
    """

    name: str
    inputs: tuple[Node, ...]
    tensors: tuple[Node, ...]
    outputs: tuple[Output, ...]
    layers: tuple[LayerInstance, ...] = ()
    updates: tuple[StatisticsUpdate, ...] = ()
    arguments: Attributes = Attributes()
    description: str = ""
    saved: tuple[Output, ...] = ()
    dropping: tuple[str, ...] = ()

    @property
    def placeholders(self) -> tuple[Node, ...]:
        """What is handed in: the inputs, then the parameters and buffers."""
        return (*self.inputs, *self.tensors)

    @property
    def roots(self) -> tuple[Node, ...]:
        """Every value the graph must deliver: outputs first, then the mean and variance of each
        update of batch statistics, then saved values."""
        statistics = [node for update in self.updates for node in (update.mean, update.variance)]
        outputs, saved = ([item.node for item in of] for of in (self.outputs, self.saved))
        return (*outputs, *statistics, *saved)


def topological(roots: tuple[Node, ...]) -> tuple[Node, ...]:
    """Every node the roots depend on, operands before users, in a deterministic order."""
    order: dict[Node, None] = {}
    stack: list[tuple[Node, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        node, visited = stack.pop()
        if visited:
            order[node] = None
        elif node not in order:
            stack.append((node, True))
            stack.extend((operand, False) for operand in reversed(node.operands))
    return tuple(order)
