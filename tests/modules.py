"""Models for tests of the generated modules: loaded from text, their kernels in the emulator."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

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


def operators(module: nn.Module, mode: str = "") -> Any:
    """The operators that a module has loaded; `mode` is `_training` for those of that one."""
    found = [
        loaded
        for (name, _), loaded in generated(module)._LOADED.items()
        if name.endswith("_training") == bool(mode)
    ]
    (only,) = found
    return only


def operator(module: nn.Module, mode: str = "") -> Callable[..., Any]:
    """The operator among those that autograd knows."""
    differentiable = operators(module, mode).differentiable
    assert callable(differentiable)
    return differentiable
