"""A model under test: its graph in each dtype, its kernels, and PyTorch's reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
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
from fusegen.ir.graph import Graph, Node, Output, Placeholder
from fusegen.passes.differentiation import Differentiated, why_not_differentiable
from fusegen.runtime.generated_module import generated_module
from fusegen.runtime.gpu import check_gpu, gpus
from fusegen.runtime.request import Target
from fusegen.runtime.tensors import as_tuple
from fusegen.testing.refusals import refusals_of_pytorch
from fusegen.testing.truth import autograd, is_trained


@dataclass(frozen=True, eq=False)
class Subject:
    """A specialised model and where its kernels run; whether its backward is left out, and whether
    it is in training. Without a `module` of the user's one is made. Emulated kernels that are
    `checked` were built for the checker."""

    chosen: Specialisation
    target: Target
    forward_only: bool = False
    training: bool = False
    module: torch.nn.Module | None = None
    checked: bool = True

    @staticmethod
    def of(
        source: Source | str | PathLike[str],
        *,
        model: str | None = None,
        arguments: Mapping[str, ArgumentValue] | None = None,
        target: str | None = None,
        forward_only: bool = False,
    ) -> Subject:
        """The model in a source or file; its kernels run on the GPU if there is one and no
        `target` is given. `forward_only` leaves out the backward. Raises SourceError and
        FusegenError as `fusegen.load` does, and FusegenError where there is no such GPU."""
        read = source if isinstance(source, Source) else Source.read(source)
        where = target_named(target or ("cuda" if gpus() else "emulate"))
        if where is Target.CUDA:
            check_gpu()
        return Subject(Specialisation.of(read, model, arguments or {}), where, forward_only)

    @property
    def device(self) -> str:
        """Where its tensors are, as PyTorch names it."""
        return "cuda" if self.target is Target.CUDA else "cpu"

    @property
    def modes(self) -> tuple[bool, ...]:
        """The modes in which there is something to verify: training where that differs, as elements
        are dropped or batches normalised by their own statistics."""
        return self.chosen.modes

    def in_mode(self, training: bool) -> Subject:
        """The same model in training or in evaluation."""
        return self if training is self.training else self._other_mode

    @cached_property
    def _other_mode(self) -> Subject:
        return replace(self, training=not self.training)

    def graph(self, dtype: DType) -> Graph:
        """The model in its mode, as its operator takes it."""
        return self.chosen.graph(dtype, training=self.training)

    def results(self, dtype: DType) -> Graph:
        """The same with all that its operator returns as outputs: the statistics of batches, too,
        by which the module updates its running ones."""
        graph = self.graph(dtype)
        statistics = [
            Output(f"{name} of {update.path}'s batch", node)
            for update in graph.updates
            for name, node in (("mean", update.mean), ("variance", update.variance))
        ]
        return replace(graph, outputs=(*graph.outputs, *statistics), updates=())

    def placeholders(self, dtype: DType) -> tuple[Node, ...]:
        """The operator's arguments: inputs, then parameters and buffers, then a seed."""
        graph = self.graph(dtype)
        return graph.placeholders

    def kernels(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """What the generated kernels make of the operator's arguments."""
        with torch.no_grad():
            return self._called(tensors)

    def reference(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """What PyTorch's own operations make of them; raises Unsuitable where they refuse."""
        function = self._reference
        with torch.no_grad(), refusals_of_pytorch():
            return as_tuple(function(*tensors))

    @cached_property
    def why_forward_only(self) -> str | None:
        """Why there is no generated backward to verify; None where there is one."""
        if self.forward_only:
            return "as asked"
        if self.chosen.derivatives(self.training):
            return None
        return why_not_differentiable(self.graph(DType.FLOAT32))

    def derivative(self, dtype: DType) -> Differentiated:
        """The forward and backward graphs in a dtype, of a model that has a backward."""
        found = self.chosen.derivative(dtype, self.training)
        assert found is not None
        return found

    def trained(self, frozen: Sequence[str] = ()) -> tuple[bool, ...]:
        """Which of the operator's arguments have gradients: those that may, and are not `frozen`,
        given by the names of inputs and the paths of parameters."""
        nodes = self.placeholders(DType.FLOAT32)
        return tuple(
            is_trained(node) and (path_of(node) or node.name) not in frozen for node in nodes
        )

    def kernel_gradients(
        self, tensors: Sequence[Tensor], trained: Sequence[bool], upstream: Sequence[Tensor | None]
    ) -> tuple[Tensor | None, ...]:
        """What the generated kernels give as the gradients of the operator's `trained` arguments,
        from those of its results; None for one that is not trained, or that no gradient reaches."""
        return _differentiated(self._called, tensors, trained, upstream)

    def reference_gradients(
        self, tensors: Sequence[Tensor], trained: Sequence[bool], upstream: Sequence[Tensor | None]
    ) -> tuple[Tensor | None, ...]:
        """What PyTorch's own operations give; raises Unsuitable where they have no derivative."""
        function = self._reference
        with refusals_of_pytorch():
            return _differentiated(
                lambda leaves: as_tuple(function(*leaves)), tensors, trained, upstream
            )

    @property
    def _reference(self) -> Callable[..., Tensor | tuple[Tensor, ...]]:
        generated = self._generated
        found: Callable[..., Tensor | tuple[Tensor, ...]]
        found = generated.reference_training if self.training else generated.reference
        return found

    def _called(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        if self.training:  # the module would draw a seed of its own
            return as_tuple(self._generated._run(self._generated._TRAINING, *tensors))
        graph = self.graph(DType.FLOAT32)
        inputs, held = tensors[: len(graph.inputs)], tensors[len(graph.inputs) :]
        paths = (path_of(node) for node in graph.tensors)
        module = self._module.eval()
        named = dict(zip(paths, held, strict=True))
        return as_tuple(torch.func.functional_call(module, named, tuple(inputs)))

    @cached_property
    def _generated(self) -> ModuleType:
        return generated_module(blueprint(self.chosen, self.target, self._checks))

    @cached_property
    def _module(self) -> torch.nn.Module:
        if self.module is not None:
            return self.module
        made = getattr(self._generated, self.chosen.name)(device=self.device)
        assert isinstance(made, torch.nn.Module)
        return made

    @property
    def _checks(self) -> bool:
        return self.target is Target.EMULATE


def _differentiated(
    function: Callable[[Sequence[Tensor]], tuple[Tensor, ...]],
    tensors: Sequence[Tensor],
    trained: Sequence[bool],
    upstream: Sequence[Tensor | None],
) -> tuple[Tensor | None, ...]:
    leaves = [
        tensor.detach().requires_grad_(wanted)
        for tensor, wanted in zip(tensors, trained, strict=True)
    ]
    with torch.enable_grad():
        results = function(leaves)[: len(upstream)]  # behind which are statistics of batches
        return autograd(results, leaves, upstream)


def path_of(node: Node) -> str:
    """Where the module holds a parameter or buffer: its `state_dict` key."""
    assert isinstance(node.operation, Placeholder)
    return node.operation.path
