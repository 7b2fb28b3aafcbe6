"""Reads a compiler's output for its user: the first errors, and the mend where it is known."""

from __future__ import annotations

import re

MOST_LINES = 5

_ERROR_LINE = re.compile(
    r"\b(fatal )?error\b\s*[:#\[]|\b(nvcc|ptxas|cc1plus)\b.*\b(fatal|error)\b|undefined reference"
    r"|No space left|Killed|cannot find"
)

_KNOWN_CAUSES = (
    (r"No space left on device", "the disk is full: free some space, or move FUSEGEN_CACHE_DIR"),
    (r"Killed|out of memory|Cannot allocate memory", "memory ran out: set FUSEGEN_JOBS=1"),
    (
        r"unsupported GNU version|unsupported clang version",
        "this nvcc does not take so new a C++ compiler: name an older one with FUSEGEN_CXX",
    ),
    (
        r"Unsupported gpu architecture|not defined for option 'gpu-",
        "this nvcc does not know the architecture: install a newer CUDA toolkit, or choose "
        "another with --arch (`nvcc --list-gpu-code` lists them)",
    ),
    (
        r"Unsupported \.version",
        "nvcc's parts are of different releases: install nvidia-cuda-nvcc, nvidia-nvvm and "
        "nvidia-cuda-crt at one version",
    ),
    (
        r"unrecognized command[- ]line option .*-std=c\+\+20",
        "the C++ compiler is too old for torch's headers: g++ 11 or newer is needed",
    ),
)


def first_errors(log: str) -> str:
    """The first lines of `log` that state an error, at most five; its last lines if none does."""
    lines = [line.rstrip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR_LINE.search(line)]
    return "\n".join(errors[:MOST_LINES] or lines[-MOST_LINES:])


def known_mend(log: str) -> str | None:
    """What the user can do about a cause that is this machine's, not the sources'."""
    for pattern, mend in _KNOWN_CAUSES:
        if re.search(pattern, log):
            return mend
    return None
