"""The results of a run: rows, and the JSON file that keeps them after every row."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import torch


@dataclass(frozen=True)
class Row:
    """A case in a precision and mode.

    `times` has each candidate's median in `unit`, "ms" on the GPU or "us" on the host; `refused`
    the peers that could not be timed, and why. `floor` in ms is the least time that `bytes` and
    `operations` allow on this card, None for the host's time. Errors are relative to float64.
    `memory` is the peak of what a candidate's call allocates, in bytes.
    """

    suite: str
    case: str
    precision: str
    mode: str
    unit: str
    times: dict[str, float]
    refused: dict[str, str]
    bytes: int
    operations: int
    floor: float | None
    error: float
    eager_error: float
    bound: float
    deterministic: bool
    complete: bool
    memory: dict[str, int] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What tells rows of a run apart."""
        return self.suite, self.case, self.precision, self.mode

    @property
    def right(self) -> bool:
        """Whether the result may be timed at all. The relative error of zeros is 1."""
        return self.error <= self.bound < 0.5 and self.deterministic and self.complete

    @property
    def best_peer(self) -> tuple[str, float] | None:
        """The fastest of eager and `torch.compile`, with its time."""
        peers = {name: self.times[name] for name in PEERS if name in self.times}
        return min(peers.items(), key=lambda item: item[1]) if peers else None

    @property
    def speedup(self) -> float | None:
        """How many times as fast as the best peer."""
        return self.best_peer[1] / self.times["fusegen"] if self.best_peer else None

    def of_floor(self, candidate: str) -> float | None:
        """Which part of a candidate's time the floor is."""
        return None if self.floor is None else self.floor / self.times[candidate]


PEERS = ("eager", "compile", "max-autotune")


@dataclass
class Record:
    """The machine, its measured ceilings, and the rows so far."""

    machine: dict[str, str]
    ceilings: dict[str, float] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    @staticmethod
    def read(path: Path) -> Record:
        """The record in a file."""
        found: dict[str, Any] = json.loads(path.read_text())
        rows = [Row(**row) for row in found["rows"]]
        return Record(found["machine"], found["ceilings"], rows)

    def write(self, path: Path) -> None:
        """Replace the file as a whole: a run that is killed leaves the rows before."""
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
        partial.write_text(json.dumps(asdict(self), indent=1) + "\n")
        partial.replace(path)


def this_machine() -> dict[str, str]:
    """The card, the versions, the date and the commit, for a record."""
    has_gpu = torch.cuda.is_available()
    return {
        "card": torch.cuda.get_device_name() if has_gpu else "none",
        "torch": torch.__version__,
        "cuda": str(torch.version.cuda),
        "date": date.today().isoformat(),
        "commit": _commit(),
    }


def _commit() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:  # there is no git
        return "unknown"
    return found.stdout.strip() or "unknown"
