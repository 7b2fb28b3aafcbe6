"""`python -m fusegen.testing.fuzzing`: random models through the whole compiler, forward and
backward, to find its faults. What fails is reduced to a small program and printed."""

from __future__ import annotations

import argparse
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.errors import Flaky

from fusegen.errors import SourceError
from fusegen.frontend import Source
from fusegen.runtime.gpu import gpus
from fusegen.testing.case import Case
from fusegen.testing.checks import check_case
from fusegen.testing.processes import each
from fusegen.testing.programs import model_sources
from fusegen.testing.reduction import reduced
from fusegen.testing.refusals import Unsuitable
from fusegen.testing.strategies import model_cases
from fusegen.testing.subject import Subject

CASES_EACH = 3
PROGRAMS_TOGETHER = 25  # of which the first is the smallest one, each time
DTYPES = ("float32", "float16", "bfloat16")
# The part of the time that goes to the search; the rest is for reducing what it finds.
SEARCH_SHARE = 0.8


@dataclass(frozen=True)
class Failure:
    """A program that fails, the case that shows it if there is one, and what is wrong."""

    text: str
    case: Case | None
    what: str

    @property
    def kind(self) -> str:
        """What failures that are likely the same fault have in common."""
        lines = self.what.strip().splitlines()
        if self.what.startswith("Traceback"):  # its last lines that are no frames
            lines = ["; ".join(line for line in lines[1:] if not line.startswith(" "))]
        return re.sub(r"^\w+: (?=\d+ of)|\d+", "", lines[0])

    def __str__(self) -> str:
        lines = (f"# {line}" for line in [*self.what.splitlines(), repr(self.case)])
        return "\n".join([*lines, "", self.text])


@dataclass(frozen=True)
class Tally:
    """How many models were tried, on how many cases that PyTorch could compute and differentiate,
    what it said to the others, and what failed."""

    programs: int
    cases: int
    refusals: Counter[str]
    failures: tuple[Failure, ...]


@dataclass(frozen=True)
class Search:
    """One process's share of a search."""

    seed: int
    seconds: float
    target: str


class _TimeIsUp(BaseException):
    """Ends a search in the middle of a model: hypothesis lets pass what is no Exception."""


def check_program(text: str, cases: st.DataObject, target: str) -> int:
    """Check a model on a few drawn cases: how many PyTorch could compute. AssertionError shows the
    program and the case where they differ."""
    checked = 0
    for failure in _checks(text, cases, target, Counter()):
        assert failure is None, str(failure)
        checked += 1
    return checked


def _checks(
    text: str, cases: st.DataObject, target: str, refusals: Counter[str]
) -> Iterator[Failure | None]:
    """What is wrong, for each drawn case that PyTorch can compute; others add to `refusals`."""
    case = None
    try:
        subject = Subject.of(Source("drawn.fuse", text), target=target)
        dtype = cases.draw(st.sampled_from(DTYPES))  # one, as most of the time goes to builds
        for _ in range(CASES_EACH):
            case = None
            try:
                case = cases.draw(model_cases(subject, dtypes=(dtype,)))
                finding = check_case(subject, case)
            except Unsuitable as refusal:
                refusals[re.sub(r"\d+", "", str(refusal).partition("\n")[0])] += 1
                continue
            except SourceError:  # a cast may fit one dtype of the module only
                continue
            yield Failure(text, case, str(finding)) if finding else None
    except Exception:
        yield Failure(text, case, traceback.format_exc())


def explore(search: Search) -> Tally:
    """Draw models for some time, and reduce what fails."""
    start = time.monotonic()
    end, until = start + search.seconds, start + SEARCH_SHARE * search.seconds
    programs = cases = rounds = 0
    found: dict[str, Failure] = {}
    refusals: Counter[str] = Counter()

    def one(text: str, drawn: st.DataObject) -> None:
        nonlocal programs, cases
        if time.monotonic() > until:
            raise _TimeIsUp
        programs += 1
        for failure in _checks(text, drawn, search.target, refusals):
            cases += 1
            if failure is not None and failure.kind not in found:
                found[failure.kind] = failure
                print(f"found, not reduced yet:\n{failure}", file=sys.stderr, flush=True)
            if time.monotonic() > until:
                raise _TimeIsUp
            if failure is not None:
                break

    while time.monotonic() < until:
        chosen: Any = settings(
            max_examples=PROGRAMS_TOGETHER,
            deadline=None,
            database=None,
            phases=(Phase.generate,),  # hypothesis would stop at what fails first
            suppress_health_check=tuple(HealthCheck),
        )
        drawn_models = seeded(search.seed * 1_000_003 + rounds)(
            given(model_sources(), st.data())(one)
        )
        try:
            chosen(drawn_models)()
        except _TimeIsUp:
            break
        except Flaky:  # what ended a model early, of which another had begun alike
            if time.monotonic() <= until:
                raise
        rounds += 1
    failures = []
    for number, failure in enumerate(found.values()):
        share = (end - time.monotonic()) / (len(found) - number)
        failures.append(_reduced(failure, search.target, share))
    return Tally(programs, cases, refusals, tuple(failures))


def _reduced(failure: Failure, target: str, seconds: float) -> Failure:
    if failure.case is None:
        return failure
    last = failure

    def is_failing(text: str, case: Case) -> bool:
        nonlocal last
        now = failure_of(text, case, target)
        if now is None or now.kind != failure.kind:
            return False
        last = now
        return True

    reduced(failure.text, failure.case, is_failing, seconds)
    return last


def failure_of(text: str, case: Case, target: str) -> Failure | None:
    """What is wrong with a model on one case; None where PyTorch cannot compute it either."""
    try:
        subject = Subject.of(Source("drawn.fuse", text), target=target)
        finding = check_case(subject, case)
    except (Unsuitable, SourceError):
        return None
    except Exception:
        return Failure(text, case, traceback.format_exc())
    return Failure(text, case, str(finding)) if finding else None


def main(arguments: Sequence[str]) -> int:
    """Fuzz as the command line says; 1 if a model fails."""
    parser = argparse.ArgumentParser(prog="python -m fusegen.testing.fuzzing", description=__doc__)
    parser.add_argument(
        "--seconds",
        type=float,
        default=600.0,
        help="how long, what is found reduced too (default: 600)",
    )
    parser.add_argument("--seed", type=int, default=0, help="which models (default: 0)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--target", choices=("emulate", "cuda"), default="emulate")
    parser.add_argument("--output", type=Path, help="folder for a file of each failing model")
    chosen = parser.parse_args(arguments)
    if chosen.target == "cuda" and not gpus():
        parser.error("there is no CUDA GPU here: leave --target out")
    searches = [
        Search(chosen.seed * 10_007 + number, chosen.seconds, chosen.target)
        for number in range(chosen.jobs)
    ]
    programs = cases = 0
    refusals: Counter[str] = Counter()
    failures: dict[str, Failure] = {}
    for tally in each(explore, searches, chosen.jobs):
        programs, cases = programs + tally.programs, cases + tally.cases
        refusals += tally.refusals
        for failure in tally.failures:
            if failure.kind in failures:
                continue
            failures[failure.kind] = failure
            print(f"{failure}\n")
            if chosen.output:
                chosen.output.mkdir(parents=True, exist_ok=True)
                path = chosen.output / f"failure_{len(failures)}.fuse"
                path.write_text(str(failure), encoding="utf-8")
    for refusal, count in refusals.most_common():
        print(f"PyTorch refused {count} cases: {refusal}")
    print(f"{programs} models on {cases} cases, {len(failures)} kinds of failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
