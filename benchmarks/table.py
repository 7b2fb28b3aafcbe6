"""The results as a table for people."""

from __future__ import annotations

from rich.table import Table

from benchmarks.record import PEERS, Record, Row


def table(record: Record) -> Table:
    """A line for each row: every candidate's time, how far from the floor, and the errors."""
    made = Table(title=_title(record))
    names = list(dict.fromkeys(name for row in record.rows for name in row.times))
    for heading in ("suite", "case", "precision", "mode"):
        made.add_column(heading)
    for heading in (
        "unit",
        *names,
        "of floor",
        "against best",
        "peak MB",
        "best peer's",
        "error",
        "eager's",
    ):
        made.add_column(heading, justify="right")
    for row in record.rows:
        made.add_row(
            *(row.suite, row.case, row.precision, row.mode, row.unit),
            *(_time(row, name) for name in names),
            *(_share(row), _speedup(row), *_peaks(row)),
            *(f"{row.error:.1e}", f"{row.eager_error:.1e}"),
            style=None if row.right else "red",
        )
    return made


def _title(record: Record) -> str:
    machine = record.machine
    return f"{machine['card']}, torch {machine['torch']}, {machine['date']}, {machine['commit']}"


def _time(row: Row, name: str) -> str:
    if name == "fusegen" and not row.right:
        return "WRONG"
    if name in row.refused:
        return "failed"
    return f"{row.times[name]:.4g}" if name in row.times else ""


def _share(row: Row) -> str:
    share = row.of_floor("fusegen")
    return "" if share is None or not row.right else f"{share:.0%}"


def _speedup(row: Row) -> str:
    return "" if row.speedup is None or not row.right else f"{row.speedup:.2f}x"


def _peaks(row: Row) -> tuple[str, str]:
    """The peak of a call's memory, and the least of the peers'."""
    peers = [row.memory[name] for name in PEERS if name in row.memory]
    if "fusegen" not in row.memory or not peers:
        return "", ""
    return f"{row.memory['fusegen'] / 1e6:.4g}", f"{min(peers) / 1e6:.4g}"
