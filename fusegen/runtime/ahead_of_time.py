"""A folder with sources and the built module, for use without fusegen."""

from __future__ import annotations

import shutil
from pathlib import Path

from fusegen.runtime.builder import emit
from fusegen.runtime.cache import cached_build
from fusegen.runtime.emulator_library import emulator_library
from fusegen.runtime.request import BuildRequest, Target


def build_into(request: BuildRequest, folder: Path) -> Path:
    """Build `request`, write its sources and the module into `folder`, and return the module there.

    The build itself happens in the cache, so nothing is written to `folder` when it fails. An
    emulated module gets the emulator's library beside it, to be loaded first with RTLD_GLOBAL.
    Raises ToolchainError, BuildError or CacheError.
    """
    files = [cached_build(request)]
    if request.target is Target.EMULATE:
        files.append(emulator_library())
    emit(request, folder)
    for file in files:
        # Never write over a library that some process may have loaded.
        (folder / file.name).unlink(missing_ok=True)
        shutil.copyfile(file, folder / file.name)
    return folder / files[0].name
