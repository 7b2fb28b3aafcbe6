"""Cuts the work on a row into phases, and decides what one phase keeps for the next."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from fusegen.ir.dtypes import DType
from fusegen.ir.integers import Symbol
from fusegen.ops.pointwise.casting import AS_STORED
from fusegen.ops.record import Monoid
from fusegen.plan.evaluate import Domain
from fusegen.plan.expressions import (
    Accumulator,
    Compute,
    Expression,
    Literal,
    Load,
    PartialStates,
    Position,
    Reduced,
    Select,
    Size,
    walk,
)
from fusegen.plan.kernels.row_program import ColumnSum, Kept, Phase, PieceSum, RowProgram
from fusegen.plan.kernels.stores import Store

# An operation this cheap is computed again from kept operands rather than kept itself.
CHEAP = 4


@dataclass(frozen=True)
class Levels:
    """For each expression: how many phases must have ended before it can be computed, and whether
    it differs from column to column."""

    level: dict[Expression, int]
    varies: dict[Expression, bool]

    @staticmethod
    def of(roots: tuple[Expression, ...], column: Symbol) -> Levels:
        """The levels of everything below the roots."""
        level: dict[Expression, int] = {}
        varies: dict[Expression, bool] = {}
        for expression in walk(roots):
            below = max((level[a] for a in expression.arguments), default=0)
            if isinstance(expression, Reduced):
                level[expression], varies[expression] = below + 1, False
            else:
                level[expression] = below
                varies[expression] = (
                    column in expression.symbols
                    or isinstance(expression, (Accumulator, PartialStates))
                    or any(varies[a] for a in expression.arguments)
                )
        return Levels(level, varies)


def build_program(
    domain: Domain,
    element_stores: tuple[Store, ...],
    row_stores: tuple[Store, ...],
    reductions: tuple[Reduced, ...],
    *,
    keep: bool,
    source: Accumulator | None = None,
    sums: tuple[ColumnSum, ...] = (),
    pieces: tuple[PieceSum, ...] = (),
) -> RowProgram:
    """The phases for given stores; `reductions` are wanted beyond those the stores depend on.

    With `keep`, values that several phases need are kept in the row cache where computing them
    again would cost a load or much arithmetic. A `source` stands in slot 0 from the start: the
    tile of a matrix product. `sums` are taken over rows, `pieces` over parts of each.
    """
    added = (*(s.value for s in sums), *(s.value for s in pieces))
    per_column = (*(s.value for s in element_stores), *added)
    roots = (*per_column, *(s.value for s in row_stores), *reductions)
    levels = Levels.of(roots, domain.column.alone)
    found = [e for e in walk(roots) if isinstance(e, Reduced)]
    last = max((levels.level[r] for r in found), default=0)
    finals = max((levels.level[value] for value in per_column), default=-1)
    planned = [
        (
            tuple(r for r in found if levels.level[r] == number + 1),
            tuple(s for s in element_stores if levels.level[s.value] == number),
            tuple(s for s in sums if levels.level[s.value] == number),
            tuple(s for s in pieces if levels.level[s.value] == number),
        )
        for number in range(max(last, finals + 1))
    ]
    kept = _Keeping(levels, enabled=keep, source=source)
    needs = [Phase(red, (), (), st, su, pieces=pi).roots for red, st, su, pi in planned]
    choices = kept.choose(needs)
    phases = tuple(
        Phase(red, reads, writes, st, su, pieces=pi)
        for (red, st, su, pi), (reads, writes) in zip(planned, choices, strict=True)
    )
    return RowProgram(domain, phases, row_stores, slots=tuple(kept.slots))


@dataclass
class _Keeping:
    levels: Levels
    enabled: bool
    source: Accumulator | None
    slots: list[DType] = field(default_factory=list)

    def choose(
        self, needs: list[tuple[Expression, ...]]
    ) -> list[tuple[tuple[Kept, ...], tuple[Kept, ...]]]:
        """For each phase, what it reads from the cache and what it writes there."""
        reads: list[list[Expression]] = []
        first_seen: dict[Expression, int] = {} if self.source is None else {self.source: -1}
        kept: dict[Expression, None] = {}
        for number, roots in enumerate(needs):
            wanted: dict[Expression, None] = {}
            computed = self._visit(roots, first_seen, kept, wanted, number)
            reads.append(list(wanted))
            for expression in computed:
                first_seen.setdefault(expression, number)
        return self._assign(reads, first_seen)

    def _visit(
        self,
        roots: tuple[Expression, ...],
        first_seen: dict[Expression, int],
        kept: dict[Expression, None],
        wanted: dict[Expression, None],
        number: int,
    ) -> list[Expression]:
        """Walk what a phase needs; expressions worth keeping are `wanted` and not walked below.

        Returns what the phase computes for every column, so that it may be kept: not what only one
        side of a selection needs, which may lie outside its tensor where the other is chosen.
        """
        visited: dict[Expression, None] = {}
        certain: list[Expression] = []
        stack, selected = list(reversed(roots)), list[Expression]()
        is_certain = True
        while stack or selected:
            if not stack:
                stack, selected, is_certain = selected, [], False
            expression = stack.pop()
            if expression in visited or expression in wanted:
                continue
            if not self.levels.varies[expression]:
                continue
            seen = self.enabled and first_seen.get(expression, number) < number
            if seen and not self._cheap(expression, kept):
                wanted[expression] = kept[expression] = None
                continue
            visited[expression] = None
            if is_certain:
                certain.append(expression)
            below = selected if isinstance(expression, Select) else stack
            below.extend(reversed(expression.arguments))
        return certain

    def _cheap(self, expression: Expression, kept: dict[Expression, None]) -> bool:
        if isinstance(expression, (Literal, Size, Position, PartialStates)):
            return True
        if not isinstance(expression, Compute) or expression.operation.cost > CHEAP:
            return False
        arguments = expression.arguments
        if expression.operation is AS_STORED and arguments[0] not in kept:
            return self._cheap(arguments[0], kept)
        return all(a in kept or not self.levels.varies[a] for a in arguments)

    def _assign(
        self, reads: list[list[Expression]], first_seen: dict[Expression, int]
    ) -> list[tuple[tuple[Kept, ...], tuple[Kept, ...]]]:
        """Give each kept value a slot that is free from the phase that writes it to the last that
        reads it; a phase reads a column before it writes it, so a slot can change hands there."""
        last_read = {e: n for n, wanted in enumerate(reads) for e in wanted}
        slot_of: dict[Expression, int] = {}
        busy_until: list[int] = []
        writes: list[list[Expression]] = [[] for _ in reads]
        for expression in sorted(last_read, key=lambda e: (first_seen[e], last_read[e])):
            born = first_seen[expression]
            dtype = expression.dtype.compute
            for slot, end in enumerate(busy_until):
                if end <= born and self.slots[slot] is dtype:
                    break
            else:
                slot = len(busy_until)
                busy_until.append(-1)
                self.slots.append(dtype)
            busy_until[slot] = last_read[expression]
            slot_of[expression] = slot
            if expression is not self.source:
                writes[born].append(expression)
        return [
            (
                tuple(Kept(e, slot_of[e]) for e in read),
                tuple(Kept(e, slot_of[e]) for e in written),
            )
            for read, written in zip(reads, writes, strict=True)
        ]


def loads_of(roots: tuple[Expression, ...]) -> tuple[Load, ...]:
    """Every load below the roots, each once."""
    return tuple(e for e in walk(roots) if isinstance(e, Load))


def state_holders(reductions: Collection[Reduced]) -> dict[Reduced, Reduced]:
    """For each reduction the one in whose state its result is found: the moments of a value hold
    its mean, too."""
    moments = {r.operand: r for r in reductions if r.monoid is Monoid.MOMENTS}
    return {r: moments.get(r.operand, r) if r.monoid is Monoid.MEAN else r for r in reductions}
