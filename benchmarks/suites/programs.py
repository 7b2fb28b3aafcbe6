"""Models written in the suites themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from fusegen.compiler.loading import load_model
from fusegen.frontend import Source


def maker(text: str, **arguments: Any) -> Callable[[], nn.Module]:
    """What makes the module of a model's text, with the model's arguments."""

    def make() -> nn.Module:
        made: nn.Module = load_model(Source("benchmark.fuse", text))(**arguments)
        return made

    return make
