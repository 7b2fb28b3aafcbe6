"""The modules a model is made of, each made once and used any number of times.

They mirror the `nn.Module`s of the plain PyTorch model, so that the tensors stand in the order of
its `state_dict`: a module's own parameters, its own buffers, then its children.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fusegen.errors import Span
from fusegen.frontend.syntax import Model
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Attributes, Node, Placeholder, Role, TensorType
from fusegen.ir.integers import Integer
from fusegen.ops.record import Layer

if TYPE_CHECKING:
    from fusegen.frontend.values import Value


@dataclass(frozen=True, eq=False)
class LayerModule:
    """A layer with its constructor's arguments and its tensors by name."""

    layer: Layer
    path: str
    arguments: Attributes
    tensors: dict[str, Node]

    def state(self) -> Iterator[Node]:
        """Its tensors in the order of the `state_dict`."""
        yield from _parameters_first(self.tensors)


@dataclass(frozen=True, eq=False)
class ModelModule:
    """A model used as a layer, or the one compiled: its arguments, and what its body has declared
    so far."""

    definition: Model
    path: str
    arguments: dict[str, Value]
    tensors: dict[str, Node] = field(default_factory=dict)
    children: dict[str, LayerModule | ModelModule] = field(default_factory=dict)

    def state(self) -> Iterator[Node]:
        """Its tensors, and those of all modules below it, in the order of the `state_dict`."""
        yield from _parameters_first(self.tensors)
        for child in self.children.values():
            yield from child.state()

    def path_of(self, name: str) -> str:
        """The attribute path of a member of this module."""
        return f"{self.path}.{name}" if self.path else name


def tensor_placeholder(
    path: str, shape: tuple[int, ...], dtype: DType, role: Role, span: Span
) -> Node:
    """The node of a parameter or buffer."""
    return Node(
        Placeholder(role.value, role, path),
        (),
        Attributes(),
        TensorType(tuple(Integer.of(size) for size in shape), dtype),
        name=path,
        span=span,
    )


def _parameters_first(tensors: dict[str, Node]) -> Iterator[Node]:
    for role in (Role.PARAMETER, Role.BUFFER):
        for node in tensors.values():
            assert isinstance(node.operation, Placeholder)
            if node.operation.role is role:
                yield node
