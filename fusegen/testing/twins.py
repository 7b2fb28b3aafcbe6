"""What the twins of operations are written with: PyTorch, and what generated modules define."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from math import ceil, inf
from typing import Any

import torch
from torch import Tensor

from fusegen import resources


@functools.cache
def names() -> Mapping[str, object]:
    """The names that the text of an operation's twin may have, beside its operands and sizes."""
    found: dict[str, object] = {
        "torch": torch,
        "F": torch.nn.functional,
        "Tensor": Tensor,
        "Any": Any,
        "ceil": ceil,
        "inf": inf,
    }
    text = resources.template("module_dropout.py.j2")
    exec(compile(text, "module_dropout.py.j2", "exec"), found)
    return found
