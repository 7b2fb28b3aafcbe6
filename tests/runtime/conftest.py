"""Plans for a small device, a cache folder of a test's own, and compilers that write down each
call."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.modules import planned_for_few_processors

WATCHED_COMPILER = """\
#!/bin/sh
case "$*" in *--version*) exec "{compiler}" "$@" ;; esac
echo "$*" >> "{folder}/calls"
while [ -e "{folder}/hold" ]; do sleep 0.05; done
exec "{compiler}" "$@"
"""


@pytest.fixture(scope="package", autouse=True)
def few_processors() -> Iterator[None]:
    with planned_for_few_processors():
        yield


@pytest.fixture
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, with a space in its name, that FUSEGEN_CACHE_DIR names."""
    folder = tmp_path / "a cache"
    monkeypatch.setenv("FUSEGEN_CACHE_DIR", str(folder))
    return folder


@dataclass(frozen=True)
class WatchedCompiler:
    """A g++ that notes its calls, and waits before compiling while it is on hold."""

    path: Path

    @property
    def calls(self) -> list[str]:
        """The arguments of each call so far, but for questions about the version."""
        log = self.path.parent / "calls"
        return log.read_text().splitlines() if log.exists() else []

    def hold(self) -> None:
        (self.path.parent / "hold").touch()

    def release(self) -> None:
        (self.path.parent / "hold").unlink()


@pytest.fixture
def watched_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WatchedCompiler:
    """The C++ compiler that FUSEGEN_CXX names for this test."""
    folder = tmp_path / "a compiler"
    folder.mkdir()
    script = folder / "g++"
    script.write_text(WATCHED_COMPILER.format(compiler=shutil.which("g++"), folder=folder))
    script.chmod(0o755)
    monkeypatch.setenv("FUSEGEN_CXX", str(script))
    return WatchedCompiler(script)
