"""`python -m fusegen.testing.source_fuzzing`: wrong programs for the frontend, which has to refuse
each in words and with the place, or make a graph of it."""

from __future__ import annotations

import argparse
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from types import FrameType

from fusegen.errors import FusegenError, SourceError
from fusegen.frontend import Source, elaborate, parse
from fusegen.frontend.printing import source_text
from fusegen.testing.mutations import mutated
from fusegen.testing.processes import each

SECONDS_EACH = 10
TOGETHER = 250


@dataclass(frozen=True)
class Fault:
    """A source that the frontend does not cope with, and what happens."""

    text: str
    what: str


def fault_of(text: str, seconds: int = SECONDS_EACH) -> str | None:
    """What is wrong with the frontend's answer to a source, if anything. More than `seconds` of the
    processor's time is wrong too, however busy the machine is; only the main thread can tell."""
    before = signal.signal(signal.SIGVTALRM, _too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        return _fault(text)
    except Exception:
        return traceback.format_exc().strip()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _too_long(number: int, frame: FrameType | None) -> None:
    raise TimeoutError("the frontend does not come to an end")


def _fault(text: str) -> str | None:
    try:
        graph = elaborate(parse(Source("mutated.fuse", text))).graph
    except SourceError as refusal:
        return _unplaced(refusal)
    except FusegenError as refusal:
        return None if refusal.message else "an error without a message"
    printed = source_text(graph)
    again = elaborate(parse(Source("printed.fuse", printed))).graph
    return None if source_text(again) == printed else f"printed otherwise again:\n{printed}"


def _unplaced(refusal: SourceError) -> str | None:
    """What is wrong with an error's places."""
    lines = refusal.source.split("\n")
    for diagnostic in refusal.diagnostics:
        span = diagnostic.span
        if not diagnostic.message or span is None:
            return f"{diagnostic} has no message or no place"
        if not (1 <= span.line <= len(lines) + 1 and span.column >= 1):
            return f"{diagnostic} is outside of the source"
        if (span.line, span.column) > (span.end_line, span.end_column):
            return f"{diagnostic} ends before it begins"
    return None


def reduced(text: str, is_faulty: Callable[[str], bool]) -> str:
    """The text without all that can be left out while it stays faulty, in ever smaller pieces."""
    size = max(len(text) // 2, 1)
    while size:
        start = 0
        while start < len(text):
            shorter = text[:start] + text[start + size :]
            if is_faulty(shorter):
                text = shorter
            else:
                start += size
        size //= 2
    return text


def faults(seed: int, count: int) -> list[Fault]:
    """The faults that `count` sources show, one of each kind, and that as short as it can be."""
    random = Random(seed)
    found: dict[str, Fault] = {}
    for _ in range(count):
        text = mutated(random)
        what = fault_of(text)
        if what is not None and _kind(what) not in found:
            found[_kind(what)] = _shortened(text, what)
    return list(found.values())


def _kind(what: str) -> str:
    return what.splitlines()[-1]


def _shortened(text: str, what: str) -> Fault:
    shortest = reduced(text, lambda shorter: (fault_of(shorter) or "").endswith(_kind(what)))
    return Fault(shortest, fault_of(shortest) or what)


def _faults(task: tuple[int, int]) -> list[Fault]:
    return faults(*task)


def main(arguments: Sequence[str]) -> int:
    """Try sources as the command line says; 1 if the frontend does not cope with one."""
    parser = argparse.ArgumentParser(
        prog="python -m fusegen.testing.source_fuzzing", description=__doc__
    )
    parser.add_argument("--sources", type=int, default=10_000, help="how many (default: 10000)")
    parser.add_argument("--seed", type=int, default=0, help="which ones (default: 0)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    chosen = parser.parse_args(arguments)
    rounds = -(-chosen.sources // TOGETHER)
    tasks = [(chosen.seed * 1_000_003 + number, TOGETHER) for number in range(rounds)]
    every = [fault for batch in each(_faults, tasks, chosen.jobs) for fault in batch]
    found = {_kind(fault.what): fault for fault in every}
    for fault in found.values():
        print(f"{fault.what}\n{fault.text!r}\n")
    print(f"{rounds * TOGETHER} sources, {len(found)} kinds of faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
