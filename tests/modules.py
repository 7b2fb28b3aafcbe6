"""Models for tests of the generated modules: loaded from text, their kernels in the emulator."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fusegen.compiler import variant
from fusegen.compiler.loading import load_model
from fusegen.frontend import Source
from fusegen.plan.cost import H100
from fusegen.plan.module import plan_module
from fusegen.runtime.request import Target


def load(text: str, target: Target = Target.EMULATE) -> Any:
    """The class of a text's model; emulated kernels are built for the checker."""
    source = Source("model.fuse", text)
    return load_model(source, target=target, check=target is Target.EMULATE)


@contextmanager
def planned_for_few_processors() -> Iterator[None]:
    """Share sums over rows between the blocks of two processors: the emulator runs every block of a
    large device, also those that have nothing to do."""
    few = functools.partial(plan_module, device=replace(H100, processors=2))
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(variant, "plan_module", few)
        yield


def generated(module: nn.Module) -> Any:
    """The Python module that a module's class was generated in."""
    return sys.modules[type(module).__module__]


def reference(module: nn.Module, *inputs: Tensor) -> Any:
    """What PyTorch computes for a module all of whose tensors the operator takes."""
    return generated(module).reference(*inputs, *module.parameters())


def operators(module: nn.Module, *inputs: Tensor, mode: str = "_INFERENCE") -> Any:
    """A module's operators for these inputs: `differentiable` and `no_grad`."""
    scope, chain, form = _place(module, inputs, mode)
    scope._load(chain, "_", form)
    return scope._LOADED[f"{chain.operator}_{form.name}"]


def derived(module: nn.Module, *inputs: Tensor, mode: str = "_INFERENCE") -> Any:
    """Those of its gradients: `forward`, which may be None, and `backward`."""
    scope, chain, form = _place(module, inputs, mode)
    scope._load_derived(chain, "_", form)
    return scope._DERIVED[f"{chain.operator}_{form.name}"]


def form_for(module: nn.Module, *inputs: Tensor, mode: str = "_INFERENCE") -> Any:
    """What its text says of the operators for these inputs."""
    return _place(module, inputs, mode)[2]


def _place(module: nn.Module, inputs: tuple[Tensor, ...], mode: str) -> tuple[Any, Any, Any]:
    scope = generated(module)
    members = "_members_training" if mode == "_TRAINING" else "_members"
    tensors = (*inputs, *(getattr(scope, members)(module) if hasattr(scope, members) else ()))
    chain = getattr(scope, mode)
    autocast = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
    return scope, chain, chain.forms[(autocast, *(tensor.dtype for tensor in tensors))]
