"""`python -m fusegen.testing.alarms [FILE[:name=value,...]]...`: how often verification of right
kernels ends in an alarm, which is then a false one, or else a fault of the compiler.

A model of each family of kernels is verified, and that of each FILE, made with the arguments behind
the colon; each has the same part of the time. One verification is one case, its forward and its
backward checked.
"""

from __future__ import annotations

import argparse
import ast
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fusegen.frontend.elaborate import ArgumentValue
from fusegen.runtime.gpu import gpus
from fusegen.testing.families import FAMILIES
from fusegen.testing.processes import each
from fusegen.testing.subject import Subject
from fusegen.testing.verification import Verification, verify

# Drawn at a time. What is not checked as the time is over is drawn all the same.
CASES_TOGETHER = 200


@dataclass(frozen=True)
class Model:
    """A model under test: one of a file, or without one that of the family."""

    name: str
    file: str | None = None
    arguments: Mapping[str, ArgumentValue] = field(default_factory=dict)

    @staticmethod
    def parse(text: str) -> Model:
        """Of `FILE` or `FILE:name=value,...`; ValueError or SyntaxError for any other text."""
        file, _, given = text.partition(":")
        pairs = [pair.split("=", 1) for pair in given.split(",") if pair]
        return Model(text, file, {name: ast.literal_eval(value) for name, value in pairs})

    def subject(self, target: str | None) -> tuple[Subject, Mapping[str, int]]:
        """It, and sizes that its family fixes."""
        if self.file is not None:
            return Subject.of(self.file, arguments=self.arguments, target=target), {}
        (family,) = (family for family in FAMILIES if family.name == self.name)
        return family.subject(target), family.sizes


@dataclass(frozen=True)
class Task:
    """A model to verify, for how long, by which cases and where."""

    model: Model
    seconds: float
    seed: int
    target: str | None


@dataclass(frozen=True)
class Counted:
    """What came of a model: the cases checked, those that PyTorch refuses, and the alarms."""

    name: str
    checked: int
    unsuitable: int
    alarms: tuple[str, ...]

    def __str__(self) -> str:
        head = f"{self.name}: {self.checked} verifications, {self.unsuitable} refused by PyTorch"
        return "\n".join([head, *(f"ALARM: {alarm}" for alarm in self.alarms)])


def count(task: Task) -> Counted:
    """Verify a model on ever new cases until its time is over."""
    end = time.monotonic() + task.seconds
    subject, sizes = task.model.subject(task.target)
    found: list[Verification] = []
    while not found or time.monotonic() < end:
        seconds = max(end - time.monotonic(), 0.0)
        seed = task.seed * 1_000_003 + len(found)
        found.append(
            verify(subject, examples=CASES_TOGETHER, seconds=seconds, seed=seed, sizes=sizes)
        )
    failures = [turn.failure for turn in found if turn.failure]
    return Counted(
        task.model.name,
        sum(turn.checked for turn in found),
        sum(turn.unsuitable for turn in found),
        tuple(f"{failure}\n{failure.case}" for failure in failures),
    )


def main(arguments: Sequence[str]) -> int:
    """Count as the command line says; 1 if there is an alarm."""
    parser = argparse.ArgumentParser(prog="python -m fusegen.testing.alarms", description=__doc__)
    parser.add_argument("files", metavar="FILE[:name=value,...]", type=Model.parse, nargs="*")
    parser.add_argument("--seconds", type=float, default=600.0, help="how long (default: 600)")
    parser.add_argument("--seed", type=int, default=0, help="which cases (default: 0)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--target", choices=("emulate", "cuda"))
    chosen = parser.parse_args(arguments)
    if chosen.target == "cuda" and not gpus():
        parser.error("there is no CUDA GPU here: leave --target out")
    models = (*(Model(family.name) for family in FAMILIES), *chosen.files)
    seconds = chosen.seconds * chosen.jobs / len(models)
    tasks = [Task(model, seconds, chosen.seed, chosen.target) for model in models]
    checked = alarms = 0
    for counted in each(count, tasks, chosen.jobs):
        print(counted, flush=True)
        checked, alarms = checked + counted.checked, alarms + len(counted.alarms)
    print(f"{checked} verifications of {len(models)} models, {alarms} alarms")
    return 1 if alarms else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
