"""`python -m fusegen.testing.fuzzing`: random models through the whole compiler, to find its
faults. What fails is reduced to a small program and printed."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from fusegen.errors import SourceError
from fusegen.frontend import Source
from fusegen.testing.case import Case
from fusegen.testing.checks import Unsuitable, check_case
from fusegen.testing.programs import model_sources
from fusegen.testing.strategies import model_cases
from fusegen.testing.subject import Subject

CASES_EACH = 3


def check_program(text: str, cases: st.DataObject, target: str) -> int:
    """Check a model on a few drawn cases: how many PyTorch could compute. AssertionError shows
    the case and the program where they differ."""
    subject = Subject.of(Source("drawn.fuse", text), target=target)
    checked = 0
    for _ in range(CASES_EACH):
        try:
            case: Case = cases.draw(model_cases(subject))
            finding = check_case(subject, case)
        except (Unsuitable, SourceError):  # a cast may fit one dtype of the module only
            continue
        assert finding is None, f"{finding}\n{case}\n{text}"
        checked += 1
    return checked


def fuzz(seconds: float, seed: int, target: str) -> tuple[int, int]:
    """Draw models for some time: how many there were, and on how many cases they were checked.
    Raises for the first that fails, once it is as small as the time allows."""
    start = time.monotonic()
    programs = checked = 0
    rounds = 0
    while time.monotonic() - start < seconds:

        def one(text: str, cases: st.DataObject) -> None:
            nonlocal programs, checked
            checked += check_program(text, cases, target)
            programs += 1

        chosen: Any = settings(
            max_examples=10,
            deadline=None,
            database=None,
            print_blob=False,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=tuple(HealthCheck),
        )
        chosen(seeded(seed * 1_000_003 + rounds)(given(model_sources(), st.data())(one)))()
        rounds += 1
    return programs, checked


def main(arguments: Sequence[str]) -> int:
    """Fuzz as the command line says; 1 if a model fails."""
    parser = argparse.ArgumentParser(prog="python -m fusegen.testing.fuzzing", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="how long (default: 600)")
    parser.add_argument("--seed", type=int, default=0, help="which models (default: 0)")
    parser.add_argument("--target", choices=("emulate", "cuda"), default="emulate")
    chosen = parser.parse_args(arguments)
    try:
        programs, checked = fuzz(chosen.seconds, chosen.seed, chosen.target)
    except AssertionError as failure:
        print(failure)
        return 1
    print(f"{programs} models agree with PyTorch on {checked} cases")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
