"""Modules from the cache, or newly built into it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fusegen.runtime.builder import build
from fusegen.runtime.cache import cached_file
from fusegen.runtime.compiled_headers import compiled_headers
from fusegen.runtime.fingerprint import build_key
from fusegen.runtime.jobs import parallel_jobs
from fusegen.runtime.ninja_file import library_name
from fusegen.runtime.request import BuildRequest
from fusegen.runtime.toolchain import Toolchain, find_toolchain


def cached_build(request: BuildRequest, toolchain: Toolchain | None = None) -> Path:
    """The built module for `request`, from the cache or newly built into it.

    Of several processes that ask at once one builds and the others wait for it. Raises
    ToolchainError, BuildError (its log is kept in the cache's `logs` folder) or CacheError.
    """
    found = toolchain or find_toolchain(request.target)

    def make(folder: Path) -> None:
        build(request, folder, found, compiled_headers(request, found))

    return cached_file(request.name, build_key(request, found), library_name(request), make)


def cached_builds(requests: Sequence[BuildRequest]) -> list[Path]:
    """The built modules for `requests`, missing ones built side by side; raises what the first that
    fails does."""
    if len(requests) == 1:
        return [cached_build(requests[0])]
    with ThreadPoolExecutor(parallel_jobs()) as pool:
        return [*pool.map(cached_build, requests)]
