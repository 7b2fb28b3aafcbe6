"""The parts of a row program's text, which the skeletons put together."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.codegen.loops import LoadAhead
from fusegen.codegen.names import mentions
from fusegen.codegen.row_ahead import CopyText


@dataclass(frozen=True)
class ResultText:
    """A reduction's result: the variable, its type, and its value once the states are merged."""

    name: str
    type: str
    value: str


@dataclass(frozen=True)
class GatheredText:
    """The array of what feeds a state, and the type of a value."""

    name: str
    type: str


@dataclass(frozen=True)
class ReductionText:
    """One state: its variable and type, what merges all threads' states, and the results it holds.
    The statement that feeds it stands in the body, or with all that a thread has of a row in
    `take`, or what feeds it is `gathered` for all columns that a thread takes together."""

    state: str
    type: str
    merged: str
    results: tuple[ResultText, ...]
    take: tuple[str, ...] = ()
    gathered: GatheredText | None = None


@dataclass(frozen=True)
class PieceText:
    """A sum over what a warp has of a row: its state and its type, and where it goes."""

    state: str
    type: str
    target: str


@dataclass(frozen=True)
class PowersText:
    """A second loop over what a thread has of a row: its state and its type, that of the thread's
    greatest value, the type of both numbers, the variable for the number that distances are taken
    from, and the statements for each element."""

    state: str
    type: str
    greatest: str
    dtype: str
    start: str
    body: tuple[str, ...]


@dataclass(frozen=True)
class PhaseText:
    """One pass over the columns: `prelude` is computed once a row, ahead of the loop, and `merging`
    are the statements behind it that bring all threads' states together.

    `stores` tells that it leaves something of each column. `refills` start the copies of the row
    that comes ahead into the place of what the phase is the last to have read.
    """

    prelude: tuple[str, ...]
    reductions: tuple[ReductionText, ...]
    merging: tuple[str, ...]
    before: tuple[str, ...]
    body: tuple[str, ...]
    after: tuple[str, ...]
    needs_column: bool
    needs_row: bool
    loads: tuple[LoadAhead, ...]
    stores: bool
    refills: tuple[str, ...] = ()
    powers: PowersText | None = None
    pieces: tuple[PieceText, ...] = ()

    @property
    def needs_first_column(self) -> bool:
        """Whether the variable `first_column` occurs in the loop over a thread's vectors."""
        return self.needs_column or mentions(
            (*self.before, *self.body, *self.after), "first_column"
        )


@dataclass(frozen=True)
class StateText:
    """Where a part's state goes: `target[position] = state`, `bytes` each."""

    target: str
    type: str
    state: str
    bytes: int


@dataclass(frozen=True)
class SumText:
    """Sums over rows: the array of a thread's vectors, an element's type and its bytes, and where
    they go."""

    name: str
    type: str
    bytes: int
    target: str


@dataclass(frozen=True)
class ProgramText:
    """A row program's text: its phases, what is computed and stored once a row, its states, its
    sums over rows, and which tensors' rows come ahead."""

    phases: tuple[PhaseText, ...]
    row_lines: tuple[str, ...]
    row_stores: tuple[str, ...]
    states: tuple[StateText, ...]
    sums: tuple[SumText, ...]
    copies: tuple[CopyText, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """All statements, in order."""
        lines: list[str] = []
        for phase in self.phases:
            lines += [*phase.prelude, *(load.value for load in phase.loads)]
            lines += [*phase.before, *phase.body, *phase.after]
        return (*lines, *self.row_lines, *self.row_stores)

    def needs(self, variable: str) -> bool:
        """Whether a loop variable occurs in the text."""
        return mentions(self.lines, variable)

    @property
    def needs_row(self) -> bool:
        """Whether the variable `row` occurs in the text."""
        has_pieces = any(phase.pieces for phase in self.phases)
        return bool(self.states) or has_pieces or self.needs("row")
