"""Models for tests of the generated modules: loaded from text, their kernels in the emulator."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor, nn

from fusegen.compiler.loading import load_model
from fusegen.frontend import Source
from fusegen.runtime.request import Target


def load(text: str, target: Target = Target.EMULATE) -> Any:
    """The class of a text's model; emulated kernels are built for the checker."""
    source = Source("model.fuse", text)
    return load_model(source, target=target, check=target is Target.EMULATE)


def generated(module: nn.Module) -> Any:
    """The Python module that a module's class was generated in."""
    return sys.modules[type(module).__module__]


def reference(module: nn.Module, *inputs: Tensor) -> Any:
    """What PyTorch computes for a module all of whose tensors the operator takes."""
    return generated(module).reference(*inputs, *module.parameters())


def operators(module: nn.Module, *inputs: Tensor, mode: str = "_INFERENCE") -> Any:
    """A module's operators for these inputs: `differentiable` and `no_grad`."""
    scope, chain, dtypes = _place(module, inputs, mode)
    scope._load(chain, "", dtypes)
    return scope._LOADED[chain.operator, dtypes]


def derived(module: nn.Module, *inputs: Tensor, mode: str = "_INFERENCE") -> Any:
    """Those of its gradients: `forward`, which may be None, and `backward`."""
    scope, chain, dtypes = _place(module, inputs, mode)
    scope._load_derived(chain, "", dtypes)
    return scope._DERIVED[chain.operator, dtypes]


def _place(
    module: nn.Module, inputs: tuple[Tensor, ...], mode: str
) -> tuple[Any, Any, tuple[torch.dtype, ...]]:
    scope = generated(module)
    members = "_members_training" if mode == "_TRAINING" else "_members"
    tensors = (*inputs, *(getattr(scope, members)(module) if hasattr(scope, members) else ()))
    return scope, getattr(scope, mode), tuple(tensor.dtype for tensor in tensors)
