"""One test case: sizes, dtype, how each tensor is made, and what is differentiated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Node, Placeholder, Role
from fusegen.runtime.tensors import torch_dtype
from fusegen.testing.layouts import Layout, laid_out
from fusegen.testing.subject import Subject, path_of
from fusegen.testing.values import Values, filled

# Seeds of gradients, apart from those of arguments.
GRADIENT_SEEDS = 500


@dataclass(frozen=True)
class Filled:
    """How a tensor is made: its values, drawn from `seed`, and its layout."""

    values: Values = Values.NORMAL
    layout: Layout = Layout.CONTIGUOUS
    seed: int = 0

    def __repr__(self) -> str:
        parts = [str(self.values)]
        if self.layout is not Layout.CONTIGUOUS:
            parts.append(str(self.layout))
        if self.seed:
            parts.append(f"seed={self.seed}")
        return f"Filled({', '.join(parts)})"


@dataclass(frozen=True)
class Case:
    """A model's dtype (by PyTorch's name), its symbolic sizes, and its tensors by the names of its
    inputs and the paths of its parameters and buffers; those not named are plain normal ones.

    `gradients` are those that the backward is given, by the names of the outputs: None for an
    output that nothing is made of. Arguments that are `frozen` require no gradient. `order` is the
    seed of the order in which the emulator runs threads. `training` is the model's mode.
    """

    dtype: str = "float32"
    sizes: Mapping[str, int] = field(default_factory=dict)
    tensors: Mapping[str, Filled] = field(default_factory=dict)
    order: int = 0
    gradients: Mapping[str, Filled | None] = field(default_factory=dict)
    frozen: tuple[str, ...] = ()
    training: bool = False

    def draw(self, subject: Subject) -> tuple[Tensor, ...]:
        """The operator's arguments in the subject's mode: the same each time."""
        return tuple(
            self._tensor(node, position, subject.device)
            for position, node in enumerate(subject.placeholders(DType(self.dtype)))
        )

    def draw_gradients(
        self, subject: Subject, results: Sequence[Tensor]
    ) -> tuple[Tensor | None, ...]:
        """The gradients of the model's outputs, the first of an operator's `results`, the same each
        time; None where one has none."""
        outputs = subject.graph(DType(self.dtype)).outputs
        made: list[Tensor | None] = []
        for position, (output, like) in enumerate(zip(outputs, results, strict=False)):
            how = self.gradients.get(output.name, Filled())
            if how is None or not like.is_floating_point():
                made.append(None)
                continue
            seed = how.seed * 1000 + GRADIENT_SEEDS + position
            drawn = filled(how.values, tuple(like.shape), like.dtype, seed, subject.device)
            made.append(laid_out(drawn, how.layout))
        return tuple(made)

    def _tensor(self, node: Node, position: int, device: str) -> Tensor:
        how = self.tensors.get(argument_name(node), Filled())
        shape = tuple(size.evaluate(self.sizes) for size in node.shape)
        seed = how.seed * 1000 + position
        if is_seed(node):
            generator = torch.Generator().manual_seed(seed)
            return torch.randint(-(2**63), 2**63 - 1, (), generator=generator).to(device)
        made = filled(how.values, shape, torch_dtype(node.dtype), seed, device)
        if argument_name(node).endswith("running_var"):
            made = made.abs()
        return laid_out(made, how.layout)


def is_seed(node: Node) -> bool:
    """Whether an argument is what dropouts draw from, for which any number of int64 is right."""
    return isinstance(node.operation, Placeholder) and node.operation.role is Role.SEED


def argument_name(node: Node) -> str:
    """What an argument of a model's operator is called: the input's name, or the path."""
    return path_of(node) or node.name or ""
