"""A folder with sources and the built module, for use without fusegen."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from fusegen.runtime.builder import emit
from fusegen.runtime.builds import cached_builds
from fusegen.runtime.emulator_library import emulator_library
from fusegen.runtime.request import BuildRequest, Target


def build_into(requests: Sequence[BuildRequest], folder: Path) -> None:
    """Build `requests`, and write their sources and the modules into `folder`.

    The builds themselves happen in the cache, so nothing is written to `folder` when one fails.
    Emulated modules get the emulator's library beside them, to be loaded first with RTLD_GLOBAL.
    Raises ToolchainError, BuildError or CacheError.
    """
    files = cached_builds(requests)
    if requests[0].target is Target.EMULATE:
        files.append(emulator_library())
    emit(requests, folder)
    for file in files:
        # Never write over a library that some process may have loaded.
        (folder / file.name).unlink(missing_ok=True)
        shutil.copyfile(file, folder / file.name)
