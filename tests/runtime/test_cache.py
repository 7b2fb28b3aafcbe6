"""The cache: built once, never half, and one clear line when the folder cannot be used."""

from __future__ import annotations

import dataclasses
import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fusegen.runtime import cache
from fusegen.runtime.builds import cached_build
from fusegen.runtime.cache import cached_file
from fusegen.runtime.errors import BuildError, CacheError
from tests.runtime.adder import adder
from tests.runtime.conftest import WatchedCompiler

CHECKOUT = Path(__file__).parents[2]
STEPS = 3
"""Compiler calls of one build: the kernel, the binding, the link."""


def start_build() -> subprocess.Popen[str]:
    """Another process that builds the adder."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.runtime.build_adder"],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < deadline, "waited ten minutes in vain"
        time.sleep(0.02)


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "modules").iterdir())


def test_second_build_comes_from_the_cache(
    cache_folder: Path, watched_compiler: WatchedCompiler
) -> None:
    first = cached_build(adder())
    assert first.is_relative_to(cache_folder)
    assert len(watched_compiler.calls) == STEPS
    assert cached_build(adder()) == first
    assert len(watched_compiler.calls) == STEPS


def test_entry_without_its_module_is_built_again(cache_folder: Path) -> None:
    first = cached_build(adder())
    first.unlink()
    assert cached_build(adder()) == first
    assert first.is_file()


def test_eight_processes_build_once(cache_folder: Path, watched_compiler: WatchedCompiler) -> None:
    processes = [start_build() for _ in range(8)]
    answers = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0] * 8, answers
    assert len({output for output, _ in answers}) == 1
    assert len(watched_compiler.calls) == STEPS
    assert len(entries(cache_folder)) == 1


def test_killed_build_leaves_nothing_that_is_trusted(
    cache_folder: Path, watched_compiler: WatchedCompiler
) -> None:
    watched_compiler.hold()
    process = start_build()
    wait_for(lambda: len(watched_compiler.calls) > 0)
    process.kill()
    process.communicate()
    (left,) = entries(cache_folder)
    assert ".partial-" in left
    watched_compiler.release()
    built = cached_build(adder())
    assert built.is_file()
    assert entries(cache_folder) == [built.parent.name]


def test_failed_build_leaves_no_entry_and_keeps_its_log(cache_folder: Path) -> None:
    good = adder()
    broken = {**good.sources, "adder.cu": "#include <fusegen/device.cuh>\nint wrong = missing;\n"}
    with pytest.raises(BuildError) as caught:
        cached_build(dataclasses.replace(good, sources=broken))
    assert "adder.cu:2" in caught.value.message
    assert "missing" in caught.value.message
    assert str(caught.value.log) in caught.value.message
    assert "adder.cu:2" in caught.value.log.read_text()
    assert entries(cache_folder) == []


def test_interrupted_fill_leaves_no_entry(cache_folder: Path) -> None:
    def interrupt(folder: Path) -> None:
        (folder / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached_file("module", "0" * 64, "module.so", interrupt)
    assert entries(cache_folder) == []


def test_cache_folder_that_is_a_file(cache_folder: Path) -> None:
    cache_folder.touch()
    with pytest.raises(
        CacheError, match=r"a cache cannot be used: (File exists|Not a dir)"
    ) as caught:
        cached_build(adder())
    assert "FUSEGEN_CACHE_DIR" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("number", "message"),
    [(errno.ENOSPC, "the disk of the cache folder .* is full"), (errno.EROFS, "Read-only")],
)
def test_full_or_read_only_disk(cache_folder: Path, number: int, message: str) -> None:
    def refuse(folder: Path) -> None:
        raise OSError(number, os.strerror(number))

    with pytest.raises(CacheError, match=message) as caught:
        cached_file("module", "0" * 64, "module.so", refuse)
    assert "FUSEGEN_CACHE_DIR" in (caught.value.hint or "")
    assert entries(cache_folder) == []


def test_full_entry_is_found_in_a_folder_that_cannot_be_locked(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache that was filled beforehand may be read-only: a hit takes no lock."""
    built = cached_build(adder())

    def no_lock(name: str) -> None:
        raise AssertionError("a hit needs no lock")

    monkeypatch.setattr(cache, "lock", no_lock)
    assert cached_build(adder()) == built
