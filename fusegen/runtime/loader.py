"""From a build request to the library that registers its operator in this process."""

from __future__ import annotations

import functools

from fusegen.emulator import EmulatorRuntime, load_runtime
from fusegen.runtime.cache import cached_build
from fusegen.runtime.emulator_library import emulator_library
from fusegen.runtime.request import BuildRequest, Target, namespace_of


def find_library(request: BuildRequest) -> tuple[str, str]:
    """The namespace under torch.ops of the operators of `request`, and the library that registers
    them there, built if it is not in the cache.

    The namespace's name follows from the sources: where it already has the operators, they are the
    same, and to load the library would register them twice, which is an error.
    """
    library = cached_build(request)
    if request.target is Target.EMULATE:
        emulator_runtime()
    return namespace_of(request), str(library)


@functools.cache
def emulator_runtime() -> EmulatorRuntime:
    """The emulator's runtime library, loaded once into this process."""
    return load_runtime(emulator_library())
