"""Every environment variable fusegen reads, in one place; `fusegen doctor` prints them.

The functions read the environment at each call, so that a test or a notebook can change a variable
at any time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from fusegen.errors import FusegenError


@dataclass(frozen=True)
class Setting:
    """One environment variable: its name, what holds when it is unset, and what it means."""

    name: str
    default: str
    meaning: str

    def value(self) -> str | None:
        """The text in the environment; None where the variable is unset or empty."""
        return os.environ.get(self.name) or None


CACHE_DIR = Setting(
    "FUSEGEN_CACHE_DIR",
    "fusegen in the user's cache folder",
    "Folder that keeps built modules, and what `fusegen tune` found.",
)
DUMP = Setting(
    "FUSEGEN_DUMP",
    "nothing",
    "Stages to show while compiling: any of ast, graph, passes, plan, cuda, with commas between, "
    "or all. They go to stderr, or as files to FOLDER when written as STAGES:FOLDER.",
)
JOBS = Setting(
    "FUSEGEN_JOBS",
    "one per core, fewer where memory is short",
    "How many compilers may run at once.",
)
NVCC = Setting(
    "FUSEGEN_NVCC",
    "searched for in CUDA_HOME, CUDA_PATH, PATH, pip's packages and /usr/local/cuda",
    "The CUDA compiler to use.",
)
CXX = Setting(
    "FUSEGEN_CXX",
    "g++, c++ or clang++, whichever is found first",
    "The C++ compiler to use, also as nvcc's host compiler.",
)
CUDA_HOME = Setting(
    "CUDA_HOME", "no folder goes first", "The CUDA toolkit's folder; its bin/nvcc is used."
)
CUDA_PATH = Setting("CUDA_PATH", "no folder goes first", "As CUDA_HOME, which goes before it.")

ALL = (CACHE_DIR, DUMP, JOBS, NVCC, CXX, CUDA_HOME, CUDA_PATH)


def cache_folder() -> Path:
    """The folder that keeps built modules, absolute; it need not exist yet."""
    chosen = CACHE_DIR.value()
    if chosen:
        return Path(chosen).expanduser().absolute()
    # Imported here because `fusegen check` needs no cache and starts faster without it.
    import platformdirs

    return Path(platformdirs.user_cache_dir("fusegen", appauthor=False))


def jobs() -> int | None:
    """The number of compilers the user allows at once; None where the user did not say.

    Raises FusegenError when the variable is not a positive whole number.
    """
    text = JOBS.value()
    if text is None:
        return None
    if not text.strip().isdecimal() or int(text) == 0:
        raise FusegenError(
            f"{JOBS.name} is '{text}', which is not a positive whole number",
            hint=f"unset it, or write for example {JOBS.name}=2",
        )
    return int(text)


class Stage(Enum):
    """A stage of the compilation that can be dumped; the value is its name in FUSEGEN_DUMP."""

    AST = "ast"
    GRAPH = "graph"
    PASSES = "passes"
    PLAN = "plan"
    CUDA = "cuda"


@dataclass(frozen=True)
class Dump:
    """What the user wants to see of the stages between source and kernels, and where."""

    stages: frozenset[Stage]
    folder: Path | None = None

    def wants(self, stage: Stage) -> bool:
        """Whether `stage` is to be shown; ask before rendering its text."""
        return stage in self.stages

    def write(self, stage: Stage, name: str, text: str) -> None:
        """Show `text` if `stage` is wanted: on stderr, or as the file `<stage>-<name>.txt`.

        `name` says which model, pass or kernel the text belongs to. Raises FusegenError where the
        folder cannot be written.
        """
        if not self.wants(stage):
            return
        if self.folder is None:
            print(f"==== {stage.value}: {name} ====\n{text.rstrip()}", file=sys.stderr)
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / f"{stage.value}-{name}.txt").write_text(text, encoding="utf-8")
        except OSError as error:
            raise FusegenError(
                f"{DUMP.name} names the folder {self.folder}, which cannot be written: "
                f"{error.strerror or error}",
                hint="name another folder behind the colon, or none to see the stages on stderr",
            ) from error


def dump() -> Dump:
    """The dumps FUSEGEN_DUMP asks for; none where it is unset.

    Raises FusegenError when it names a stage that does not exist.
    """
    stages, _, folder = (DUMP.value() or "").partition(":")
    return Dump(frozenset(_parse_stages(stages)), Path(folder).expanduser() if folder else None)


def _parse_stages(text: str) -> Iterator[Stage]:
    names = {stage.value: stage for stage in Stage}
    for word in filter(None, (part.strip() for part in text.split(","))):
        if word == "all":
            yield from Stage
        elif word in names:
            yield names[word]
        else:
            raise FusegenError(
                f"{DUMP.name} names the stage '{word}', which does not exist",
                hint=f"the stages are {', '.join(names)}, or all",
            )
