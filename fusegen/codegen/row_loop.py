"""How threads go through the columns of a row, as the text of a row program needs to know it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fusegen.codegen.row_ahead import CopyText, ResidentText, ScalarText, SharedText
from fusegen.codegen.row_cache import Slots
from fusegen.ir.integers import Integer
from fusegen.plan.expressions import Load


@dataclass(frozen=True)
class RowLoop:
    """How threads go through a row's columns.

    The number of columns and the sizes `even` are multiples of `vector`. `merge` is the device
    function that merges the states of the threads that share a row, as text with a place for the
    state: `reduce({})`. With `ahead`, each thread takes several vectors together, whose loads stand
    ahead of all else; with `alike_late` not those of what all rows read alike, which is in the L1
    cache and would take registers. With `across`, a vector's elements belong to neighbouring rows
    from `own_row` on instead of columns: states and results are arrays, and all that a row needs is
    computed where it is used; what `gathers` feeds states with all columns that a thread takes
    together. Sums over rows stand in arrays or, without `keeps_sums`, in memory at
    `sums`. With `joins`, a phase's states are merged together: each merge costs a barrier. Where
    `guard` is given, registers hold a row as vectors, which are stored only where it is true. The
    loads in `copies` and `scalars` come ahead; the vectors of those in `resident` stand in arrays
    for all rows, of those in `shared` in shared memory; those in `early` are made with the first
    phase's, whichever needs them. With `shares`, which names the array of a
    slot, moments are taken of all that a thread has of a row at once, which is as much in every
    thread.
    """

    vector: int
    slots: Slots
    merge: str
    ahead: bool = False
    alike_late: bool = False
    even: tuple[Integer, ...] = ()
    across: bool = False
    gathers: bool = False
    keeps_sums: bool = True
    joins: bool = False
    guard: str = ""
    copies: Mapping[Load, CopyText] = field(default_factory=dict)
    scalars: Mapping[Load, ScalarText] = field(default_factory=dict)
    resident: Mapping[Load, ResidentText] = field(default_factory=dict)
    shared: Mapping[Load, SharedText] = field(default_factory=dict)
    early: tuple[Load, ...] = ()
    shares: Callable[[int], str] | None = None

    @property
    def takes_vectors(self) -> bool:
        """Whether each thread has whole vectors of a row."""
        return bool(self.ahead or self.guard) and not self.across
