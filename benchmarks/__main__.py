"""`python -m benchmarks`: generated modules beside PyTorch's own ways, checked and timed on this
machine's GPU."""

from __future__ import annotations

import argparse
import fnmatch
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.case import PRECISIONS, Case, Mode, Precision
from benchmarks.ceilings import bandwidth, product_rate
from benchmarks.measure import Bench, Compiler
from benchmarks.overhead import host_microseconds
from benchmarks.peak import peak_bytes
from benchmarks.record import Record, this_machine
from benchmarks.suites import SUITES
from benchmarks.table import table
from fusegen.runtime.timing import time_together

PEERS: dict[str, Compiler] = {
    "compile": torch.compile,
    "max-autotune": lambda module: torch.compile(module, mode="max-autotune"),
}
WRONG, MISUSE = 1, 2
PIPE_WIDTH = 200

Job = tuple[Case, Precision, Mode]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what the command line asks for: 1 if a result is wrong, 2 for a mistake in it."""
    options = _options(argv)
    jobs = _jobs(options)
    if options.list:
        for case, precision, mode in jobs:
            print(f"{case.suite}: {case.name}, {precision.name}, {mode.value}")
        return 0
    if not jobs:
        return _misuse("nothing matches; --list shows what there is")
    if not torch.cuda.is_available():
        return _misuse("the benchmarks need a GPU, and PyTorch finds none")
    record = Record(this_machine())
    if options.output is not None and options.output.exists():
        if not options.resume:
            return _misuse(f"{options.output} exists; add --resume to go on with it")
        record = Record.read(options.output)
        differs = _differs(record.machine)
        if differs:
            return _misuse(f"{options.output} {differs}; write to another file")
    run(
        jobs,
        record,
        Bench(
            device="cuda",
            clock=time_together,
            host_clock=host_microseconds,
            ceilings=record.ceilings,
            peers={name: PEERS[name] for name in options.peers},
            peer_seconds=options.peer_seconds,
            peak=peak_bytes,
        ),
        options.output,
    )
    console = Console()
    console.width = console.width if console.is_terminal else PIPE_WIDTH
    console.print(table(record))
    if options.plot is not None:
        from benchmarks.plot import plot

        plot(record, options.plot)
    return 0 if all(row.right for row in record.rows) else WRONG


def run(jobs: Sequence[Job], record: Record, bench: Bench, output: Path | None) -> None:
    """Measure the jobs that the record lacks; it is written to `output` after each."""
    done = {row.key for row in record.rows}
    left = [(c, p, m) for c, p, m in jobs if (c.suite, c.name, p.name, m.value) not in done]
    _measure_ceilings(left, record, bench)
    columns = TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn()
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=len(left))
        for case, precision, mode in left:
            progress.update(task, description=f"{case.name} {precision.name} {mode.value}")
            record.rows.append(bench.measure(case, precision, mode))
            if output is not None:
                record.write(output)
            progress.advance(task)


def _measure_ceilings(jobs: Sequence[Job], record: Record, bench: Bench) -> None:
    timed = [(case, precision) for case, precision, _ in jobs if not case.on_host]
    if timed and "bandwidth" not in record.ceilings:
        record.ceilings["bandwidth"] = bandwidth(bench.clock, bench.device)
    for precision in {p.name: p for case, p in timed if case.operations}.values():
        if precision.name not in record.ceilings:
            record.ceilings[precision.name] = product_rate(precision, bench.clock, bench.device)


def _options(argv: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--suite", nargs="+", choices=SUITES, default=["chains"])
    parser.add_argument(
        "--only", nargs="+", metavar="CASE", default=["*"], help="names of cases, with * and ?"
    )
    parser.add_argument(
        "--dtype", nargs="+", choices=PRECISIONS, default=["float32", "tf32", "bfloat16"]
    )
    parser.add_argument("--mode", nargs="+", choices=[m.value for m in Mode], default=["forward"])
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument(
        "--peer-seconds", type=float, metavar="S", help="leave out a peer that compiles for longer"
    )
    parser.add_argument("--list", action="store_true", help="print the cases and stop")
    parser.add_argument("--output", type=Path, metavar="JSON", help="kept up to date row by row")
    parser.add_argument("--resume", action="store_true", help="go on with the rows of --output")
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw a picture (needs matplotlib)"
    )
    return parser.parse_args(argv)


def _jobs(options: Any) -> list[Job]:
    return [
        (case, PRECISIONS[name], mode)
        for suite in options.suite
        for case in SUITES[suite]()
        if any(fnmatch.fnmatch(case.name, pattern) for pattern in options.only)
        for name in options.dtype
        if name in case.precisions
        for mode in map(Mode, options.mode)
    ]


def _differs(machine: dict[str, str]) -> str:
    """How a record's machine differs from this, in words; the date may."""
    here = this_machine()
    for key in ("card", "torch", "cuda", "commit"):
        if machine.get(key) != here[key]:
            return f"was measured with {key} {machine.get(key)}, not {here[key]}"
    return ""


def _misuse(message: str) -> int:
    print(message, file=sys.stderr)
    return MISUSE


if __name__ == "__main__":
    sys.exit(main())
