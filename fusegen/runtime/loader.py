"""Loads a built module into this process and hands out its operators."""

from __future__ import annotations

import functools
import threading
from typing import Any

import torch

from fusegen.emulator import EmulatorRuntime, load_runtime
from fusegen.runtime.cache import cached_build
from fusegen.runtime.emulator_library import emulator_library
from fusegen.runtime.request import BuildRequest, Target, namespace_of

_ONE_AT_A_TIME = threading.Lock()


def load_operators(request: BuildRequest, operator: str) -> Any:
    """torch.ops' namespace with the operators of `request`, built and loaded when first needed.

    `operator` is one that the module registers. A namespace that already has it is used as it is:
    its name follows from the sources, so the operators are the same, whether they came from the
    cache or from a folder that was compiled ahead of time; and to register them twice is an error.
    """
    namespace = getattr(torch.ops, namespace_of(request))
    with _ONE_AT_A_TIME:
        if not hasattr(namespace, operator):
            library = cached_build(request)
            if request.target is Target.EMULATE:
                emulator_runtime()
            torch.ops.load_library(str(library))  # type: ignore[no-untyped-call]
    return namespace


@functools.cache
def emulator_runtime() -> EmulatorRuntime:
    """The emulator's runtime library, loaded once into this process."""
    return load_runtime(emulator_library())
