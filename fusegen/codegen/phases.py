"""The text of a row program: what happens before, in and after the loop of each phase."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from fusegen.codegen.c_text import compute_type, stored
from fusegen.codegen.loops import LoadAhead, VectorLoop, scalar_load
from fusegen.codegen.names import mentions
from fusegen.codegen.scope import Scope
from fusegen.codegen.statements import Statements
from fusegen.ir.dtypes import DType
from fusegen.ir.integers import Integer
from fusegen.ops.pointwise.arithmetic import DIVIDE
from fusegen.ops.record import Monoid
from fusegen.plan.buffers import state_bytes
from fusegen.plan.evaluate import accumulator_dtype
from fusegen.plan.expressions import (
    Accumulator,
    Compute,
    Expression,
    Literal,
    PartialStates,
    Reduced,
    Select,
    Size,
)
from fusegen.plan.kernels.row_program import ColumnSum, Kept, Phase, RowProgram
from fusegen.plan.phases import state_holders

# What is gathered from the vectors that a thread has, instead of from single elements.
BY_VECTORS = (Monoid.MEAN, Monoid.MOMENTS, Monoid.LOG_SUM_EXP)


class Slots(Protocol):
    """How a phase reads and writes the values that it keeps for later ones."""

    def read(self, kept: Kept, loop: VectorLoop) -> str:
        """The text of the kept value inside the element loop."""

    def write(self, kept: Kept, text: str, loop: VectorLoop) -> str:
        """The statement inside the element loop that keeps `text`."""


@dataclass(frozen=True)
class MemorySlots:
    """Slots in shared memory; `address` is where a slot's element for the first column of a
    thread's vector lies."""

    address: Callable[[int], str]

    def read(self, kept: Kept, loop: VectorLoop) -> str:
        """An element of a vector loaded ahead of the element loop."""
        variable = loop.scope.names.fresh(f"kept_{kept.value.name}")
        dtype, address = compute_type(kept.value.dtype), self.address(kept.slot)
        loop.before.append(f"const auto {variable} = load_vector<{dtype}, vector>({address});")
        return f"{variable}[element]"

    def write(self, kept: Kept, text: str, loop: VectorLoop) -> str:
        """Into a vector that is stored behind the element loop."""
        variable = loop.scope.names.fresh(f"kept_{kept.value.name}")
        loop.before.append(f"Vector<{compute_type(kept.value.dtype)}, vector> {variable};")
        loop.after.append(f"store_vector({self.address(kept.slot)}, {variable});")
        return f"{variable}[element] = {text};"


@dataclass(frozen=True)
class RegisterSlots:
    """Slots in each thread's registers; `element` is the text of a slot's current element."""

    element: Callable[[int], str]

    def read(self, kept: Kept, loop: VectorLoop) -> str:
        """The register itself."""
        return self.element(kept.slot)

    def write(self, kept: Kept, text: str, loop: VectorLoop) -> str:
        """An assignment to the register."""
        return f"{self.element(kept.slot)} = {text};"


@dataclass(frozen=True)
class ResultText:
    """A reduction's result: the variable, its type, and its value once the states are merged."""

    name: str
    type: str
    value: str


@dataclass(frozen=True)
class ReductionText:
    """One state: its variable and type, the expression that merges all threads' states, and the
    results it holds. The statement that feeds it stands in the body."""

    state: str
    type: str
    merged: str
    results: tuple[ResultText, ...]


@dataclass(frozen=True)
class PhaseText:
    """One pass over the columns: `prelude` is computed once a row, ahead of the loop, and `merging`
    are the statements behind it that bring all threads' states together.

    `stores` tells that it leaves something of each column.
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


@dataclass(frozen=True)
class StateText:
    """Where a part's state goes: `target[position] = state`, `bytes` each."""

    target: str
    type: str
    state: str
    bytes: int


@dataclass(frozen=True)
class SumText:
    """Sums over rows: the array of a thread's vectors, an element's type, and where they go."""

    name: str
    type: str
    target: str


@dataclass(frozen=True)
class ProgramText:
    """A row program's text: its phases, what is computed and stored once a row, its states, its
    sums over rows."""

    phases: tuple[PhaseText, ...]
    row_lines: tuple[str, ...]
    row_stores: tuple[str, ...]
    states: tuple[StateText, ...]
    sums: tuple[SumText, ...]

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
        return bool(self.states) or self.needs("row")


def program_text(
    program: RowProgram,
    scope: Scope,
    *,
    vector: int,
    slots: Slots,
    merge: str,
    ahead: bool = False,
    even: tuple[Integer, ...] = (),
    across: bool = False,
    keeps_sums: bool = True,
    joins: bool = False,
    guard: str = "",
) -> ProgramText:
    """Write a row program in `scope`, whose loop variable is `column`.

    The number of columns and the sizes `even` are multiples of `vector`. `merge` is the device
    function that merges the states of the threads that share a row, as text with a place for the
    state: `reduce({})`. With `ahead`, each thread takes several vectors together, whose loads stand
    ahead of all else. With `across`, a vector's elements belong to neighbouring rows from `own_row`
    on instead of columns: states and results are arrays, and all that a row needs is computed where
    it is used. Sums over rows stand in arrays or, without `keeps_sums`, in memory at `sums`. With
    `joins`, a phase's states are merged together: each merge costs a barrier. Where `guard` is
    given, registers hold a row as vectors, which are stored only where it is true.
    """
    writer = _Writer(
        program, scope, vector, slots, merge, ahead, even, across, keeps_sums, joins, guard
    )
    phases = tuple(writer.phase(phase) for phase in program.phases)
    values = [(store, writer.row.value(store.value)) for store in program.row_stores]
    row_stores = tuple(
        f"{scope.buffer(s.buffer)}[{scope.text(s.position)}] = "
        f"{stored(value, s.value.dtype, s.buffer.dtype)};"
        for s, value in values
    )
    states = tuple(
        StateText(
            scope.buffer(s.buffer),
            _state_type(s.reduction),
            writer.state_of[s.reduction],
            state_bytes(s.reduction.monoid, s.accumulator),
        )
        for s in program.states
    )
    return ProgramText(phases, writer.row.drain(), row_stores, states, tuple(writer.sums))


class _Writer:
    def __init__(
        self,
        program: RowProgram,
        scope: Scope,
        vector: int,
        slots: Slots,
        merge: str,
        ahead: bool,
        even: tuple[Integer, ...],
        across: bool,
        keeps_sums: bool,
        joins: bool,
        guard: str,
    ) -> None:
        self.program, self.scope = program, scope
        self.vector, self.slots, self.merge, self.ahead = vector, slots, merge, ahead
        self.even, self.across, self.keeps_sums = even, across, keeps_sums
        self.joins, self.guard = joins, guard
        self.state_of: dict[Reduced, str] = {}
        self.sums: list[SumText] = []
        self.divisors: dict[Expression, str] = {}
        self.column = program.domain.column.alone
        self.load = scalar_load(scope)
        self.tolerant = program.tolerant
        self.row = Statements(
            scope.names, scope.symbols, self.load, self.load, tolerant=self.tolerant
        )

    def phase(self, phase: Phase) -> PhaseText:
        """Write one phase; its reductions' results are known to what follows."""
        domain, scope = self.program.domain, self.scope
        multiples = (domain.rows if self.across else domain.columns, *self.even)
        step, first = (domain.column, "first_column")
        if self.across:
            step, first = domain.row, "own_row"
        loop = VectorLoop(scope, step, first, self.vector, multiples, self.ahead, self.guard)
        known = {kept.value: self.slots.read(kept, loop) for kept in phase.reads}
        if not self.across:
            self._hoist(phase.roots, frozenset(known))
        prelude = self.row.drain()
        known |= self.row.known
        element = Statements(
            scope.names,
            loop.scope.symbols,
            loop.load,
            self.load,
            known,
            divisors=self.divisors,
            tolerant=self.tolerant,
        )
        holders = state_holders(phase.reductions)
        reductions = tuple(
            self._feed(holder, [r for r in holders if holders[r] is holder], element, loop)
            for holder in dict.fromkeys(holders.values())
        )
        for store in phase.stores:
            element.lines.append(loop.store(store, element.value(store.value)))
        for summed in phase.sums:
            own = self._sum(summed, loop)
            element.lines.append(f"{own}[element] += {element.value(summed.value)};")
        # All values first: a slot may change hands here, and its old value must have been read.
        writes = [(kept, element.value(kept.value)) for kept in phase.writes]
        for kept, text in writes:
            element.lines.append(self.slots.write(kept, text, loop))
        body = element.drain()
        return PhaseText(
            prelude,
            reductions,
            self._merging(reductions),
            tuple(loop.before),
            body,
            tuple(loop.after),
            mentions((*body, *loop.before, *loop.after), "column"),
            mentions(body, "row"),
            tuple(loop.loads),
            bool(phase.stores or phase.sums),
        )

    def _merging(self, reductions: tuple[ReductionText, ...]) -> tuple[str, ...]:
        if len(reductions) < 2 or not self.joins:
            return tuple(f"{r.state} = {r.merged};" for r in reductions)
        joined = self.scope.names.fresh("joined")
        states = ", ".join(r.state for r in reductions)
        return (
            f"auto {joined} = join({states});",
            f"{joined} = {self.merge.format(joined)};",
            f"{joined}.split({states});",
        )

    @property
    def _takes_vectors(self) -> bool:
        """Whether each thread has whole vectors of a row."""
        return bool(self.ahead or self.guard) and not self.across

    def _feed(
        self, holder: Reduced, reductions: list[Reduced], element: Statements, loop: VectorLoop
    ) -> ReductionText:
        """Take elements into the state of `holder`, which holds the results of `reductions`."""
        names, operand = self.scope.names, holder.operand
        state = names.fresh(f"{holder.name}_state")
        own = "[element]" if self.across else ""
        if isinstance(operand, PartialStates):
            left = names.fresh(f"{holder.name}_left")
            pointer = f"reinterpret_cast<const {_state_type(holder)}*>"
            element.lines += [
                f"const auto* const {left} = {pointer}({self.scope.buffer(operand.buffer)});",
                f"{state}{own}.merge({left}[{self.scope.text(operand.offset)}]);",
            ]
        elif self._takes_vectors and holder.monoid in BY_VECTORS:
            values = names.fresh(f"{holder.name}_values")
            dtype = compute_type(accumulator_dtype(operand.dtype))
            loop.before.append(f"Vector<{dtype}, vector> {values};")
            element.lines.append(f"{values}[element] = {element.value(operand)};")
            loop.after.append(f"{state}.push({values});")
        else:
            element.lines.append(f"{state}{own}.push({element.value(operand)}, column);")
        results = []
        for reduction in reductions:
            self.state_of[reduction] = f"{state}{own}"
            variable = names.fresh(reduction.name)
            self.row.known[reduction] = f"{variable}{own}"
            dtype = compute_type(reduction.dtype)
            value = f"{state}{own}.result()" if reduction is holder else f"{state}{own}.mean()"
            results.append(ResultText(variable, dtype, f"convert<{dtype}>({value})"))
        if self.program.states:
            results = []  # a part of a row has a state, and no result yet
        return ReductionText(
            state, _state_type(holder), self.merge.format(state + own), tuple(results)
        )

    def _sum(self, summed: ColumnSum, loop: VectorLoop) -> str:
        """The vector of sums over rows at the thread's columns: in registers, or where it has too
        many, in its own places in memory."""
        target, dtype = self.scope.buffer(summed.buffer), compute_type(summed.buffer.dtype)
        name = self.scope.names.fresh(f"{target}_own")
        self.sums.append(SumText(name, dtype, target))
        if self.keeps_sums:
            return f"{name}[step]"
        place = f"{target} + sums + first_column"
        loop.before.append(
            f"Vector<{dtype}, vector> {name} = load_vector<{dtype}, vector>({place});"
        )
        loop.after.append(f"store_vector({place}, {name});")
        return name

    def _hoist(self, roots: tuple[Expression, ...], stop: frozenset[Expression]) -> None:
        """Compute ahead of the loop all that is the same for the whole row."""
        varies: dict[Expression, bool] = {}
        stack: list[tuple[Expression, bool]] = [(root, False) for root in reversed(roots)]
        order: list[Expression] = []
        while stack:
            expression, visited = stack.pop()
            if visited:
                below = expression not in stop and any(
                    varies[a] for a in _hoisted_arguments(expression)
                )
                varies[expression] = (
                    below
                    or expression in stop
                    or self.column in expression.symbols
                    or isinstance(expression, (Accumulator, PartialStates, Select))
                )
                order.append(expression)
            elif expression not in varies:
                stack.append((expression, True))
                if expression not in stop:
                    stack.extend((a, False) for a in reversed(_hoisted_arguments(expression)))
        for expression in order:
            if not varies[expression] and not isinstance(expression, (Literal, Size)):
                self.row.value(expression)
        for expression in order:
            if varies[expression] and expression not in stop:
                self._prepare_division(expression, varies)

    def _prepare_division(self, quotient: Expression, varies: dict[Expression, bool]) -> None:
        """Where all of a row is divided by one number, take its reciprocal once."""
        if not isinstance(quotient, Compute) or quotient.operation is not DIVIDE:
            return
        by = quotient.operands[1]
        is_known = by in self.divisors or isinstance(by, (Literal, Size))
        if varies[by] or is_known or by.dtype.compute is not DType.FLOAT32:
            return
        self.divisors[by] = self.scope.names.fresh(f"{by.name}_divisor")
        self.row.lines.append(f"const Divisor {self.divisors[by]}({self.row.value(by)});")


def _hoisted_arguments(expression: Expression) -> tuple[Expression, ...]:
    """What may be computed whether or not the expression is: not the sides of a selection."""
    return () if isinstance(expression, (Select, Reduced)) else expression.arguments


def _state_type(reduction: Reduced) -> str:
    dtype = (
        reduction.operand.accumulator
        if isinstance(reduction.operand, PartialStates)
        else accumulator_dtype(reduction.operand.dtype)
    )
    return f"{reduction.monoid.value}<{compute_type(dtype)}>"
