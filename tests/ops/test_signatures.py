"""Names, order and defaults of parameters are PyTorch's."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fusegen.ops.record import REQUIRED, Parameter
from fusegen.ops.registry import FUNCTIONS, LAYERS

# Where nothing is written in place and no tensor is handed in to write to, these mean nothing; and
# a module's device and dtype are those it is moved to.
LEFT_OUT = {"self", "inplace", "out", "_stacklevel", "device", "args", "kwargs"}
OTHER_NAMES = {"logsigmoid": "log_sigmoid"}
ABSENT = inspect.Parameter.empty

Declared = list[tuple[str, object]]


def schemas(name: str) -> Iterator[Declared]:
    """The parameters and defaults of each overload of PyTorch's operator."""
    for schema in torch._C._jit_get_schemas_for_operator(f"aten::{OTHER_NAMES.get(name, name)}"):
        names = ["input" if a.name == "self" else a.name for a in schema.arguments]
        defaults = [a.default_value if a.has_default_value() else ABSENT for a in schema.arguments]
        yield list(zip(names, defaults, strict=True))


def python_signatures(name: str) -> Iterator[Declared]:
    """The parameters and defaults of PyTorch's Python function."""
    for module in (F, torch):
        function = getattr(module, name, None)
        if inspect.isfunction(function):
            found = inspect.signature(function).parameters.values()
            yield [("input" if p.name == "tensor" else p.name, p.default) for p in found]


def plain(default: object) -> object:
    """A default with `[1, 1]` as 1 and `[]` as None."""
    if isinstance(default, (list, tuple)):
        return default[0] if default else None
    return default


def agrees(own: Sequence[Parameter], theirs: Declared) -> bool:
    """Whether the parameters begin alike, with equal defaults, and the rest are optional."""
    theirs = [(name, default) for name, default in theirs if name not in LEFT_OUT]
    shared = min(len(own), len(theirs))
    if any(p.default is REQUIRED for p in own[shared:]):
        return False
    if any(default is ABSENT for _, default in theirs[shared:]):
        return False
    return all(
        p.name == name and (default is ABSENT or plain(p.default) == plain(default))
        for p, (name, default) in zip(own[:shared], theirs[:shared], strict=True)
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name: str) -> None:
    candidates = [*schemas(name), *python_signatures(name)]
    assert any(agrees(FUNCTIONS[name].parameters, theirs) for theirs in candidates), candidates


@pytest.mark.parametrize("name", LAYERS)
def test_layer(name: str) -> None:
    found = inspect.signature(getattr(nn, name).__init__).parameters.values()
    assert agrees(LAYERS[name].parameters, [(p.name, p.default) for p in found])
