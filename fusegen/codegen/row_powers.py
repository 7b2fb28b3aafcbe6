"""Powers that threads take by the greatest that each has met itself, before they know the row's."""

from __future__ import annotations

from collections.abc import Mapping

from fusegen.codegen.c_text import compute_type
from fusegen.codegen.loops import VectorLoop
from fusegen.codegen.row_loop import RowLoop
from fusegen.codegen.row_text import PowersText, ReductionText
from fusegen.codegen.scope import Scope
from fusegen.codegen.statements import GuardedLoadText, Statements
from fusegen.ops.pointwise.arithmetic import DIVIDE
from fusegen.plan.expressions import Compute, Expression, Reduced, walk
from fusegen.plan.kernels.row_program import Powers
from fusegen.plan.tolerance import NARROW


class PowerWriter:
    """Writes powers, with `row` before the loops; `tolerant` are the values that need not be exact
    to the last bit."""

    def __init__(
        self,
        scope: Scope,
        how: RowLoop,
        row: Statements,
        load: GuardedLoadText,
        tolerant: frozenset[Expression],
    ) -> None:
        self.scope, self.how, self.row, self.load, self.tolerant = scope, how, row, load, tolerant
        # What turns a thread's powers into the row's, and their totals.
        self.factors: dict[Expression, str] = {}
        self.totals: dict[Expression, Reduced] = {}

    def made_of(
        self, cached: Mapping[Expression, str], roots: tuple[Expression, ...]
    ) -> dict[Expression, str]:
        """The text of the row's powers of which threads have their own `cached`, and of quotients
        of these and their total where a product is near enough."""
        known: dict[Expression, str] = {}
        for power in [value for value in cached if value in self.factors]:
            kept, factor = cached[power], self.factors[power]
            known[power] = f"({kept} * {factor})"
            for quotient in walk(roots):
                if self._is_near_quotient(quotient, power):
                    total = self.row.value(self.totals[power])
                    share = self.scope.names.fresh(f"{quotient.name}_share")
                    dtype = compute_type(quotient.dtype)
                    self.row.lines.append(f"const {dtype} {share} = {factor} / {total};")
                    known[quotient] = f"({kept} * {share})"
        return known

    def _is_near_quotient(self, quotient: Expression, power: Expression) -> bool:
        if not isinstance(quotient, Compute) or quotient.operation is not DIVIDE:
            return False
        is_tolerant = quotient in self.tolerant or quotient.dtype in NARROW
        return quotient.operands == (power, self.totals[power]) and is_tolerant

    def write(
        self, powers: Powers, greatest: ReductionText, loop: VectorLoop
    ) -> tuple[PowersText, tuple[str, ...]]:
        """The loop that takes powers by a thread's own greatest, and what merges the states."""
        names = self.scope.names
        dtype = compute_type(powers.total.dtype)
        is_near = powers.power in self.tolerant or powers.power.dtype in NARROW
        state, start = names.fresh("powers"), names.fresh("start")
        type = f"ShiftedSum<{dtype}, {'true' if is_near else 'false'}>"
        (result,) = greatest.results
        element = Statements(
            names,
            loop.scope.symbols,
            self.load,
            self.load,
            {powers.source.value: self.how.slots.read(powers.source, loop), powers.greatest: start},
            tolerant=self.tolerant,
        )
        power = element.value(powers.power)
        body = [*element.drain(), f"{state}.sum += {power};"]
        if powers.kept:
            body.append(self.how.slots.write(powers.kept, power, loop))
            self.factors[powers.power] = names.fresh("own_factor")
            self.totals[powers.power] = powers.total
        merged, total = names.fresh("all_powers"), names.fresh(powers.total.name)
        self.row.known[powers.total] = total
        unsure = "" if powers.kept else "[[maybe_unused]] "
        merging = [
            f"const auto {merged} = {self.how.merge.format(state)};",
            f"{unsure}const {dtype} {result.name} = {merged}.greatest;",
            f"const {dtype} {total} = {merged}.sum;",
        ]
        if powers.kept:
            factor = f"{state}.factor({result.name})"
            merging.append(f"const {dtype} {self.factors[powers.power]} = {factor};")
        text = PowersText(state, type, greatest.state, dtype, start, tuple(body))
        return text, tuple(merging)
