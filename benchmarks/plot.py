"""The results as a picture: each candidate's time as a multiple of the floor. Needs matplotlib,
which the command asks for only where a picture is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from benchmarks.record import Record, Row

COLOURS = {
    "fusegen": "#0b6e4f",
    "eager": "#b0b0b0",
    "compile": "#e09f3e",
    "max-autotune": "#9e2a2b",
}
# What is timed beside the candidates: a bare product, a copy.
YARDSTICK_COLOUR = "#335c67"
BAR = 0.8
INCHES_A_BAR = 0.19
LONGEST = 5.0


def plot(record: Record, path: Path) -> None:
    """Write the picture of all rows that are right; the file's ending names its format.

    A panel for each suite, precision and mode. Bars are times over the floor, cut where they are
    longer than LONGEST floors; those of the host's time are microseconds.
    """
    panels: dict[tuple[str, str, str], list[Row]] = {}
    for row in record.rows:
        if row.right:
            panels.setdefault((row.suite, row.precision, row.mode), []).append(row)
    bars = [sum(len(row.times) for row in rows) for rows in panels.values()]
    height = sum(1.1 + INCHES_A_BAR * count for count in bars) or 2
    figure = Figure(figsize=(9, height), layout="constrained")
    machine = record.machine
    figure.suptitle(f"{machine['card']}, torch {machine['torch']}, {machine['date']}")
    axes = figure.subplots(
        max(1, len(panels)), squeeze=False, height_ratios=[count + 4 for count in bars] or None
    )
    for (name, rows), axis in zip(panels.items(), axes[:, 0], strict=False):
        _panel(axis, " · ".join(name), rows)
    figure.savefig(path, dpi=150)


def _panel(axis: Any, title: str, rows: Sequence[Row]) -> None:
    position = 0.0
    ticks: list[float] = []
    for row in rows:
        scale, longest = (row.floor, LONGEST) if row.floor else (1.0, inf)
        first = position
        for name, time in row.times.items():
            length = min(time / scale, longest)
            colour = COLOURS.get(name, YARDSTICK_COLOUR)
            axis.barh(position, length, BAR, color=colour, label=name)
            label = f" {time:.3g} {row.unit}{' (cut)' if length < time / scale else ''}"
            axis.text(length, position, label, va="center", fontsize=7)
            position += 1
        ticks.append((first + position - 1) / 2)
        position += 0.8
    axis.set_title(title, loc="left", fontsize=10)
    axis.set_yticks(ticks, [row.case for row in rows], fontsize=8)
    axis.invert_yaxis()
    axis.margins(x=0.12)
    if rows[0].floor is None:
        axis.set_xlabel("microseconds a call on the host", fontsize=8)
    else:
        axis.axvline(1, color="black", linewidth=1)
        axis.set_xlabel("time over the floor (the line at 1)", fontsize=8)
    handles = dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    axis.legend(
        handles.values(),
        handles.keys(),
        fontsize=7,
        loc="lower right",
        bbox_to_anchor=(1, 1),
        ncols=len(handles),
        frameon=False,
    )
