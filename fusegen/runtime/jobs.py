"""How many compilers to run at once: one per core, as far as memory allows."""

from __future__ import annotations

import os
from pathlib import Path

from fusegen import settings

BYTES_PER_JOB = 3 << 29
"""1.5 GiB, a generous bound for nvcc on one kernel file or g++ on torch's headers."""


def parallel_jobs() -> int:
    """The number of compilers to run at once: FUSEGEN_JOBS, else what cores and memory allow."""
    chosen = settings.jobs()
    if chosen is not None:
        return chosen
    return bounded_jobs(len(os.sched_getaffinity(0)), available_memory())


def bounded_jobs(cores: int, memory: int | None) -> int:
    """At most `cores`, at most one per 1.5 GiB of `memory` (bytes, None if unknown), at least 1."""
    return cores if memory is None else max(1, min(cores, memory // BYTES_PER_JOB))


def available_memory() -> int | None:
    """Bytes of memory free for new processes, within the container's limit; None if unknown."""
    amounts = [amount for amount in (system_memory(), container_memory()) if amount is not None]
    return min(amounts, default=None)


def system_memory(meminfo: Path = Path("/proc/meminfo")) -> int | None:
    try:
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    except OSError:
        pass
    return None


def container_memory(group: Path = Path("/sys/fs/cgroup")) -> int | None:
    """What the control group (version 2) still allows; None without a group or a limit."""
    try:
        limit = (group / "memory.max").read_text().strip()
        used = (group / "memory.current").read_text().strip()
    except OSError:
        return None
    return None if limit == "max" else max(0, int(limit) - int(used))
