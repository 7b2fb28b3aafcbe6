"""From a build request to the library that registers its operator in this process."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from fusegen.emulator import EmulatorRuntime, load_runtime
from fusegen.runtime.builds import cached_builds
from fusegen.runtime.emulator_library import emulator_library
from fusegen.runtime.request import BuildRequest, Target, namespace_of


def find_libraries(requests: Sequence[BuildRequest]) -> list[tuple[str, str]]:
    """For each request the namespace under torch.ops of its operators, and the library that
    registers them there; those that are not in the cache are built, side by side.

    The namespace's name follows from the sources: where it already has the operators, they are the
    same, and to load the library would register them twice, which is an error.
    """
    libraries = cached_builds(requests)
    if any(request.target is Target.EMULATE for request in requests):
        emulator_runtime()
    namespaces = map(namespace_of, requests)
    return [(space, str(path)) for space, path in zip(namespaces, libraries, strict=True)]


@functools.cache
def emulator_runtime() -> EmulatorRuntime:
    """The emulator's runtime library, loaded once into this process."""
    return load_runtime(emulator_library())
