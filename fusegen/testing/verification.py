"""Draws cases for a model until one fails, the count is reached or the time is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import HealthCheck, Phase, errors, given, seed, settings

from fusegen.compiler.sizes import check_sizes
from fusegen.ir.dtypes import DType
from fusegen.testing.case import Case
from fusegen.testing.checks import check_case
from fusegen.testing.judging import Finding
from fusegen.testing.parting import first_parting
from fusegen.testing.refusals import Unsuitable
from fusegen.testing.strategies import model_cases
from fusegen.testing.subject import Subject

Progress = Callable[[int], None]

PHASES = (Phase.generate, Phase.shrink)
# Looking for a smaller failing case takes at most this part of the time budget more.
SHRINKING_SHARE = 0.5


@dataclass(frozen=True)
class Failure:
    """The smallest failing case that was found, what is wrong there, and the first operation of
    that direction whose own result is wrong when it is computed alone, if there is one."""

    case: Case
    finding: Finding
    parts_at: str | None = None

    def __str__(self) -> str:
        direction = self.finding.direction.value
        where = f"\nthe values part in the {direction} at: {self.parts_at}"
        return f"{self.finding}{where if self.parts_at else ''}"


@dataclass(frozen=True)
class Verification:
    """What came out: how many cases were checked and how many PyTorch itself refuses; the failure,
    if there is one; whether the time was over before all cases were drawn; and why only the
    forward was checked, if so."""

    checked: int
    unsuitable: int
    seconds: float
    failure: Failure | None
    out_of_time: bool
    why_forward_only: str | None = None

    @property
    def is_right(self) -> bool:
        """Whether something was checked and nothing failed."""
        return self.checked > 0 and self.failure is None


@dataclass
class _Tally:
    """What the drawn cases have shown so far."""

    checked: int = 0
    unsuitable: int = 0
    out_of_time: bool = False
    failure: Failure | None = None
    known: dict[str, Finding | None] = field(default_factory=dict)


class _Wrong(Exception):
    """Tells hypothesis that a case fails."""


def verify(
    subject: Subject,
    *,
    examples: int = 100,
    seconds: float = 60.0,
    seed: int = 0,
    dtypes: Sequence[str] = ("float32", "float16", "bfloat16"),
    sizes: Mapping[str, int] | None = None,
    progress: Progress = lambda done: None,
) -> Verification:
    """Check a model's kernels on up to `examples` cases within `seconds`: the forward, and the
    backward where one is generated.

    The same `seed` draws the same cases. `sizes` fixes symbolic sizes. `progress` is told how many
    cases are done. Raises FusegenError for a size that the model does not have, and what a build
    raises.
    """
    check_sizes(subject.graph(DType.FLOAT32), sizes or {})
    start = time.monotonic()
    tally = _Tally()

    def over(share: float) -> bool:
        return time.monotonic() - start > seconds * share

    def one(case: Case) -> None:
        finding = _finding(subject, case, tally, over)
        progress(tally.checked + tally.unsuitable)
        if finding:
            tally.failure = Failure(case, finding)
            raise _Wrong

    _search(one, subject, examples, seed, dtypes, sizes)
    failure = tally.failure
    if failure:
        parting = first_parting(subject, failure.case, failure.finding.direction)
        failure = replace(failure, parts_at=parting)
    elapsed = time.monotonic() - start
    return Verification(
        tally.checked,
        tally.unsuitable,
        elapsed,
        failure,
        tally.out_of_time,
        subject.why_forward_only,
    )


def _finding(
    subject: Subject, case: Case, tally: _Tally, over: Callable[[float], bool]
) -> Finding | None:
    """What is wrong with a case; nothing once the time is over, so that hypothesis comes to an
    end."""
    if repr(case) in tally.known:
        return tally.known[repr(case)]
    if over(1.0 if tally.failure is None else 1.0 + SHRINKING_SHARE):
        tally.out_of_time = True
        return None
    try:
        finding = check_case(subject, case)
        tally.checked += tally.failure is None
    except Unsuitable:
        finding = None
        tally.unsuitable += tally.failure is None
    tally.known[repr(case)] = finding
    return finding


def _search(
    one: Callable[[Case], None],
    subject: Subject,
    examples: int,
    chosen_seed: int,
    dtypes: Sequence[str],
    sizes: Mapping[str, int] | None,
) -> None:
    cases = model_cases(subject, dtypes=dtypes, sizes=sizes)
    wanted: Any = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        print_blob=False,
        phases=PHASES,
        suppress_health_check=tuple(HealthCheck),
    )
    try:
        wanted(seed(chosen_seed)(given(cases)(one)))()
    except (_Wrong, errors.Flaky):  # the time was over while it shrank
        return
