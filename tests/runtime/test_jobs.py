"""The number of compilers at once follows cores, memory and FUSEGEN_JOBS."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusegen.errors import FusegenError
from fusegen.runtime import jobs

GIB = 1 << 30


@pytest.mark.parametrize(
    ("cores", "memory", "expected"),
    [
        (8, None, 8),
        (8, 64 * GIB, 8),
        (8, 6 * GIB, 4),
        (8, 4 * GIB, 2),
        (8, GIB // 2, 1),
        (1, 64 * GIB, 1),
    ],
)
def test_bounded_jobs(cores: int, memory: int | None, expected: int) -> None:
    assert jobs.bounded_jobs(cores, memory) == expected


def test_the_user_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSEGEN_JOBS", "37")
    assert jobs.parallel_jobs() == 37


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5"])
def test_nonsense_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSEGEN_JOBS", text)
    with pytest.raises(FusegenError, match="FUSEGEN_JOBS is"):
        jobs.parallel_jobs()


def test_container_limit(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text(f"{4 * GIB}\n")
    (tmp_path / "memory.current").write_text(f"{GIB}\n")
    assert jobs.container_memory(tmp_path) == 3 * GIB
    (tmp_path / "memory.max").write_text("max\n")
    assert jobs.container_memory(tmp_path) is None
    assert jobs.container_memory(tmp_path / "no group") is None


def test_system_memory(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:   2048 kB\n")
    assert jobs.system_memory(tmp_path / "meminfo") == 2 << 20
    assert jobs.system_memory(tmp_path / "none") is None
