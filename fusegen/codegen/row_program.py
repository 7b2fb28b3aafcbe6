"""The text of a row program: what happens before, in and after the loop of each phase."""

from __future__ import annotations

from dataclasses import replace

from fusegen.codegen.c_text import compute_type, stored
from fusegen.codegen.invariants import varying
from fusegen.codegen.loops import VectorLoop, scalar_load
from fusegen.codegen.names import mentions
from fusegen.codegen.row_loop import RowLoop
from fusegen.codegen.row_powers import PowerWriter
from fusegen.codegen.row_text import (
    GatheredText,
    PhaseText,
    PieceText,
    ProgramText,
    ReductionText,
    ResultText,
    StateText,
    SumText,
)
from fusegen.codegen.scope import Scope
from fusegen.codegen.statements import Statements
from fusegen.ir.dtypes import DType
from fusegen.ir.integers import Integer, Quotient
from fusegen.ops.pointwise.arithmetic import DIVIDE
from fusegen.ops.record import Monoid
from fusegen.plan.buffers import state_bytes
from fusegen.plan.evaluate import accumulator_dtype
from fusegen.plan.exchanges import MOMENTS
from fusegen.plan.expressions import (
    Compute,
    Expression,
    Literal,
    Load,
    PartialStates,
    Reduced,
    Size,
    certain_loads,
)
from fusegen.plan.kernels.row_program import ColumnSum, Phase, PieceSum, RowProgram
from fusegen.plan.phases import state_holders

# What is gathered from the vectors that a thread has, instead of from single elements.
BY_VECTORS = (Monoid.MEAN, Monoid.MOMENTS, Monoid.LOG_SUM_EXP)


def program_text(program: RowProgram, scope: Scope, how: RowLoop) -> ProgramText:
    """Write a row program in `scope`, whose loop variable is `column`."""
    writer = _Writer(program, scope, how)
    phases = writer.refilled([writer.phase(phase) for phase in program.phases])
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
    copies = tuple(how.copies[load] for load in writer.last_taken)
    return ProgramText(phases, writer.row.drain(), row_stores, states, tuple(writer.sums), copies)


class _Writer:
    def __init__(self, program: RowProgram, scope: Scope, how: RowLoop) -> None:
        # What a row's divisions leave has names in this kernel only.
        self.scope = scope = replace(scope, symbols=dict(scope.symbols))
        self.program, self.how = program, how
        self.state_of: dict[Reduced, str] = {}
        self.sums: list[SumText] = []
        self.divisors: dict[Expression, str] = {}
        self.column = program.domain.column.alone
        self.load = scalar_load(scope)
        self.tolerant = program.tolerant
        self.count = 0  # of phases written
        # Where the vectors stand that later phases find in registers.
        self.vectors = {load: f"{held.name}[step]" for load, held in how.resident.items()}
        self.last_taken: dict[Load, int] = {}  # the last phase that reads what comes ahead
        self.row = Statements(
            scope.names, scope.symbols, self.load, self.load, tolerant=self.tolerant
        )
        self.row.known |= {load: scalar.name for load, scalar in how.scalars.items()}
        self.powers = PowerWriter(scope, how, self.row, self.load, self.tolerant)

    def phase(self, phase: Phase) -> PhaseText:
        """Write one phase; its reductions' results are known to what follows."""
        if not self.how.across:
            self._divide_once(phase.roots)
        domain, scope = self.program.domain, self.scope
        multiples = (domain.rows if self.how.across else domain.columns, *self.how.even)
        step, first = (domain.column, "first_column")
        if self.how.across:
            step, first = domain.row, "own_row"
        loop = VectorLoop(
            scope,
            step,
            first,
            self.how.vector,
            multiples,
            self.how.ahead,
            self._is_late,
            self.how.guard,
            staged=self._staged(),
            vectors=dict(self.vectors),
        )
        known = self._kept(phase, loop)
        if not self.how.across:
            self._hoist(phase.roots, frozenset(known))
        prelude = self.row.drain()
        known |= self.row.known
        element = Statements(
            scope.names,
            loop.scope.symbols,
            loop.load,
            loop.guarded_load,
            known,
            divisors=self.divisors,
            tolerant=self.tolerant,
            choice=loop.choice,
            condition=loop.condition,
        )
        holders = state_holders(phase.reductions)
        reductions = tuple(
            self._feed(holder, [r for r in holders if holders[r] is holder], element, loop, phase)
            for holder in dict.fromkeys(holders.values())
        )
        for store in phase.stores:
            element.lines.append(loop.store(store, element.value(store.value)))
        for summed in phase.sums:
            own = self._sum(summed, loop)
            element.lines.append(f"{own}[element] += {element.value(summed.value)};")
        pieces = tuple(self._piece(piece, element) for piece in phase.pieces)
        # All values first: a slot may change hands here, and its old value must have been read.
        writes = [(kept, element.value(kept.value)) for kept in phase.writes]
        for kept, text in writes:
            element.lines.append(self.how.slots.write(kept, text, loop))
        body = element.drain()
        if self.count == 0:
            for load in self.how.early:
                loop.load(load)
                self.vectors[load] = loop.vectors[load]
        taken = [load for load in loop.taken if load in self.how.copies]
        self.last_taken |= dict.fromkeys(taken, self.count)
        self.count += 1
        powers, merging = None, self._merging(reductions)
        if phase.powers:
            powers, merging = self.powers.write(phase.powers, reductions[0], loop)
        return PhaseText(
            prelude,
            reductions,
            merging,
            tuple(loop.before),
            body,
            tuple(loop.after),
            mentions((*body, *loop.before, *loop.after), "column"),
            mentions(body, "row"),
            tuple(loop.loads),
            bool(phase.stores or phase.sums),
            powers=powers,
            pieces=pieces,
        )

    def _is_late(self, load: Load) -> bool:
        """Whether to load what all rows read alike only where it is used."""
        return self.how.alike_late and self.program.domain.row.alone not in load.symbols

    def _piece(self, piece: PieceSum, element: Statements) -> PieceText:
        """Add an element to what a thread sums of its piece of the row."""
        target = self.scope.buffer(piece.buffer)
        state = self.scope.names.fresh(f"{target}_own")
        element.lines.append(f"{state}.push({element.value(piece.value)}, column);")
        return PieceText(state, f"Sum<{compute_type(piece.buffer.dtype)}>", target)

    def _staged(self) -> dict[Load, str]:
        """The vectors that stand in shared memory."""
        moving = {load: f"{c.name}.take(place, step)" for load, c in self.how.copies.items()}
        return moving | {load: f"{c.name}.take(0, step)" for load, c in self.how.shared.items()}

    def _kept(self, phase: Phase, loop: VectorLoop) -> dict[Expression, str]:
        """The text of what a phase reads from the cache, and of what is made of powers there."""
        known = {kept.value: self.how.slots.read(kept, loop) for kept in phase.reads}
        return known | self.powers.made_of(known, phase.roots)

    def refilled(self, phases: list[PhaseText]) -> tuple[PhaseText, ...]:
        """The phases, each with the copies that may start behind it."""
        calls = {load: f"{copy.bring}(row_ahead, place);" for load, copy in self.how.copies.items()}
        return tuple(
            replace(
                phase,
                refills=tuple(calls[load] for load, last in self.last_taken.items() if last == n),
            )
            for n, phase in enumerate(phases)
        )

    def _merging(self, reductions: tuple[ReductionText, ...]) -> tuple[str, ...]:
        takes = tuple(line for r in reductions for line in r.take)
        if len(reductions) < 2 or not self.how.joins:
            return (*takes, *(f"{r.state} = {r.merged};" for r in reductions))
        joined = self.scope.names.fresh("joined")
        states = ", ".join(r.state for r in reductions)
        return (
            *takes,
            f"auto {joined} = join({states});",
            f"{joined} = {self.how.merge.format(joined)};",
            f"{joined}.split({states});",
        )

    def _feed(
        self,
        holder: Reduced,
        reductions: list[Reduced],
        element: Statements,
        loop: VectorLoop,
        phase: Phase,
    ) -> ReductionText:
        """Take elements into the state of `holder`, which holds the results of `reductions`."""
        names, operand = self.scope.names, holder.operand
        state = names.fresh(f"{holder.name}_state")
        own = "[element]" if self.how.across else ""
        type = _state_type(holder)
        take: tuple[str, ...] = ()
        gathered: GatheredText | None = None
        if self.how.shares is not None and holder.monoid in MOMENTS:
            type = f"EvenMoments<{compute_type(accumulator_dtype(operand.dtype))}, steps * vector>"
            (slot,) = (kept.slot for kept in phase.writes if kept.value is operand)
            take = (f"{state}.take({self.how.shares(slot)});",)
        elif isinstance(operand, PartialStates):
            left = names.fresh(f"{holder.name}_left")
            pointer = f"reinterpret_cast<const {_state_type(holder)}*>"
            element.lines += [
                f"const auto* const {left} = {pointer}({self.scope.buffer(operand.buffer)});",
                f"{state}{own}.merge({left}[{self.scope.text(operand.offset)}]);",
            ]
        elif self.how.gathers and holder.monoid in BY_VECTORS:
            dtype = compute_type(accumulator_dtype(operand.dtype))
            gathered = GatheredText(names.fresh(f"{holder.name}_values"), dtype)
            element.lines.append(f"{gathered.name}[element][step] = {element.value(operand)};")
        elif self.how.takes_vectors and holder.monoid in BY_VECTORS:
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
        merged = self.how.merge.format(state)
        return ReductionText(state, type, merged, tuple(results), take, gathered)

    def _sum(self, summed: ColumnSum, loop: VectorLoop) -> str:
        """The vector of sums over rows at the thread's columns: in registers, or where it has too
        many, in its own places in memory."""
        of, target = summed.buffer.dtype, self.scope.buffer(summed.buffer)
        dtype, name = compute_type(of), self.scope.names.fresh(f"{target}_own")
        self.sums.append(SumText(name, dtype, of.compute.itemsize, target))
        if self.how.keeps_sums:
            return f"{name}[step]"
        place = f"{target} + sums + first_column"
        loop.before.append(
            f"Vector<{dtype}, vector> {name} = load_vector<{dtype}, vector>({place});"
        )
        loop.after.append(f"store_vector({place}, {name});")
        return name

    def _divide_once(self, roots: tuple[Expression, ...]) -> None:
        """Divide the row by sizes ahead of the loop: each takes some 25 instructions, and the
        compiler would repeat it for every vector. What is loaded under a condition is left out, as
        sizes may be 0 where it does not hold."""
        variables = {s for s in self.program.domain.row.symbols() if s.extent is not None}
        for load in certain_loads(roots):
            strided = load.coordinates if load.buffer in self.scope.strided else ()
            found = {d for value in (load.offset, *strided) for d in value.divisions()}
            for division in sorted(found, key=lambda d: len(str(d))):  # inner ones first
                is_of_row = bool(variables & division.numerator.symbols())
                varies = self.column in Integer.of_atom(division).symbols()
                if not is_of_row or varies or division.denominator.constant is not None:
                    continue
                if division not in self.scope.symbols:
                    value = self.scope.text(Integer.of_atom(division))
                    kind = "quotient" if isinstance(division, Quotient) else "remainder"
                    name = self.scope.names.fresh(f"row_{kind}")
                    self.row.lines.append(f"const int64_t {name} = {value};")
                    self.scope.symbols[division] = name

    def _hoist(self, roots: tuple[Expression, ...], kept: frozenset[Expression]) -> None:
        """Compute ahead of the loop all that is the same for the whole row."""
        varies = varying(roots, kept, self.column)
        for expression, does_vary in varies.items():
            if not does_vary and not isinstance(expression, (Literal, Size)):
                self.row.value(expression)
        for expression, does_vary in varies.items():
            if does_vary and expression not in kept:
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


def _state_type(reduction: Reduced) -> str:
    dtype = (
        reduction.operand.accumulator
        if isinstance(reduction.operand, PartialStates)
        else accumulator_dtype(reduction.operand.dtype)
    )
    return f"{reduction.monoid.value}<{compute_type(dtype)}>"
