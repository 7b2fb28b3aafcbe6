"""The cache of what was built, safe under many processes and under kill -9.

A build happens in a folder of its own, `<entry>.partial-*`, which is renamed to `<entry>` only when
it is complete. So an entry that exists can be trusted, and what a killed process left behind has
another name and is swept away by the next build of the same entry.
"""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock

from fusegen import settings
from fusegen.runtime.errors import BuildError, CacheError

KEY_DIGITS = 24
"""Hex digits of the key in an entry's name: 96 bits, so that no two entries ever share a name."""

NAME_LENGTH = 80
"""Characters of the module's name in an entry's name; file systems allow 255 in all."""


def cached_file(name: str, key: str, file: str, make: Callable[[Path], object]) -> Path:
    """The path of `file` in the entry of `name` and `key`; `make(folder)` fills a missing entry.

    Of several processes that ask at once one makes it and the others wait. Raises CacheError.
    """
    entry = settings.cache_folder() / "modules" / f"{name[:NAME_LENGTH]}-{key[:KEY_DIGITS]}"
    found = entry / file
    if found.is_file():
        return found
    with cache_errors(), lock(entry.name):
        if not found.is_file():
            _fill(entry, make)
    return found


def _fill(entry: Path, make: Callable[[Path], object]) -> None:
    """Make `entry` in a folder beside it and rename that; the entry's lock must be held."""
    for abandoned in (entry, *entry.parent.glob(f"{entry.name}.partial-*")):
        shutil.rmtree(abandoned, ignore_errors=True)
    entry.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f"{entry.name}.partial-", dir=entry.parent))
    try:
        make(partial)
        partial.chmod(0o755)
        partial.rename(entry)
    except BuildError as error:
        raise _with_kept_log(error, entry.name) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _with_kept_log(error: BuildError, name: str) -> BuildError:
    """`error` with its log moved out of the folder that is about to be removed."""
    logs = settings.cache_folder() / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    kept = logs / f"{name}.log"
    shutil.copyfile(error.log, kept)
    return BuildError(error.summary, kept, error.hint)


@contextmanager
def lock(name: str) -> Iterator[None]:
    """Hold the entry's lock; the system frees it when the process ends, however that happens."""
    folder = settings.cache_folder() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(folder / f"{name}.lock"):
        yield


@contextmanager
def cache_errors() -> Iterator[None]:
    """Turn what the file system refuses into one line about the cache folder."""
    folder = settings.cache_folder()
    mend = f"set {settings.CACHE_DIR.name} to a folder on a local disk that you can write to"
    try:
        yield
    except NotImplementedError as error:
        raise CacheError(f"the cache folder {folder} does not support locks", mend) from error
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise CacheError(
                f"the disk of the cache folder {folder} is full",
                f"free some space, or set {settings.CACHE_DIR.name} to a folder on another disk",
            ) from error
        reason = error.strerror or str(error)
        raise CacheError(f"the cache folder {folder} cannot be used: {reason}", mend) from error
