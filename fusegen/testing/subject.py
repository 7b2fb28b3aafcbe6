"""A model under test: its graph in each dtype, its kernels, and PyTorch's reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from types import ModuleType

import torch
from torch import Tensor

from fusegen.compiler.choices import target_named
from fusegen.compiler.loading import blueprint
from fusegen.compiler.specialisation import Specialisation
from fusegen.frontend import Source
from fusegen.frontend.elaborate import ArgumentValue
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node, Placeholder
from fusegen.runtime.generated_module import generated_module
from fusegen.runtime.gpu import gpus
from fusegen.runtime.request import Target


@dataclass(frozen=True, eq=False)
class Subject:
    """A specialised model and where its kernels run. Emulated kernels are built for the checker."""

    chosen: Specialisation
    target: Target

    @staticmethod
    def of(
        source: Source | str | PathLike[str],
        *,
        model: str | None = None,
        arguments: Mapping[str, ArgumentValue] | None = None,
        target: str | None = None,
    ) -> Subject:
        """The model in a source or file; its kernels run on the GPU if there is one and no
        `target` is given. Raises SourceError and FusegenError as `fusegen.load` does."""
        read = source if isinstance(source, Source) else Source.read(source)
        where = target_named(target or ("cuda" if gpus() else "emulate"))
        return Subject(Specialisation.of(read, model, arguments or {}), where)

    @property
    def device(self) -> str:
        """Where its tensors are, as PyTorch names it."""
        return "cuda" if self.target is Target.CUDA else "cpu"

    def graph(self, dtype: DType) -> Graph:
        """The model in evaluation, as its operator takes it."""
        return self.chosen.graph(dtype, training=False)

    def placeholders(self, dtype: DType) -> tuple[Node, ...]:
        """The operator's arguments: inputs, then parameters and buffers."""
        graph = self.graph(dtype)
        return (*graph.inputs, *graph.tensors)

    def kernels(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """What the generated kernels make of the operator's arguments."""
        graph = self.graph(DType.FLOAT32)
        inputs, held = tensors[: len(graph.inputs)], tensors[len(graph.inputs) :]
        paths = (path_of(node) for node in graph.tensors)
        with torch.no_grad():
            module = self._module.eval()
            return as_tuple(
                torch.func.functional_call(
                    module, dict(zip(paths, held, strict=True)), tuple(inputs)
                )
            )

    def reference(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """What PyTorch's own operations make of them."""
        with torch.no_grad():
            return as_tuple(self._generated.reference(*tensors))

    @cached_property
    def _generated(self) -> ModuleType:
        return generated_module(blueprint(self.chosen, self.target, self._checks))

    @cached_property
    def _module(self) -> torch.nn.Module:
        made = getattr(self._generated, self.chosen.name)(device=self.device)
        assert isinstance(made, torch.nn.Module)
        return made

    @property
    def _checks(self) -> bool:
        return self.target is Target.EMULATE


def path_of(node: Node) -> str:
    """Where the module holds a parameter or buffer: its `state_dict` key."""
    assert isinstance(node.operation, Placeholder)
    return node.operation.path


def as_tuple(results: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]:
    """One result or several, as several."""
    return (results,) if isinstance(results, Tensor) else tuple(results)


def torch_dtype(dtype: DType) -> torch.dtype:
    """PyTorch's dtype of that name."""
    found = getattr(torch, dtype.value)
    assert isinstance(found, torch.dtype)
    return found
