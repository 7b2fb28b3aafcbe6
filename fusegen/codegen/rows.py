"""The text of a row kernel."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.codegen.c_text import compute_type
from fusegen.codegen.kernel_text import KernelText
from fusegen.codegen.row_ahead import AheadText, copies_of, resident_of, scalars_of, shared_of
from fusegen.codegen.row_cache import RegisterSlots
from fusegen.codegen.row_loop import RowLoop
from fusegen.codegen.row_program import program_text
from fusegen.codegen.row_text import ProgramText
from fusegen.codegen.scope import Scope, stored_integers
from fusegen.ir.integers import Integer
from fusegen.plan.kernels.base import WARP
from fusegen.plan.kernels.rows import RowForm, RowMapping, RowPlan


@dataclass(frozen=True)
class Slot:
    """A slot of the row cache: its array's name, and the type of an element."""

    name: str
    type: str


@dataclass(frozen=True)
class FormText:
    """One kernel of the family, and when the launcher takes it; the last has no condition.

    `elements` are the columns that a thread handles at once. `ahead` tells of rows that come ahead.
    """

    suffix: str
    plan: RowForm
    mapping: str
    elements: int
    program: ProgramText
    slots: tuple[Slot, ...]
    condition: str
    ahead: AheadText | None = None

    @property
    def start(self) -> str:
        """The first column of a thread's first vector."""
        own = self.plan.piece_lanes
        if own is None or own == self.plan.lanes:
            return "lane * vector"
        return f"lane / {own} * {own * self.elements} + lane % {own} * vector"

    @property
    def warp(self) -> str:
        """A warp's number among those of all rows, each of which has columns of one piece."""
        own, share = self.plan.piece_lanes, self.elements * WARP
        assert own is not None
        if self.plan.most_columns is None:  # piece by piece
            piece = f"chunk / {own * self.elements} * {own // WARP}"
            return f"row * (columns / {share}) + {piece} + lane / {WARP}"
        return f"row * (lanes / {WARP}) + lane / {WARP}"

    @property
    def reach(self) -> str:
        """How many threads' vectors lie between two of a thread."""
        own = self.plan.piece_lanes
        return "lanes" if own is None or own == self.plan.lanes else str(own)


@dataclass(frozen=True)
class RowText:
    """What the skeleton `rows.cu.j2` fills in.

    `has_fixed_vectors` tells that the size that vectors lie along is a constant.
    """

    kernel: KernelText
    forms: tuple[FormText, ...]
    rows: str
    columns: str
    vector: int
    even: tuple[str, ...]
    parts: int
    blocks: int | None
    sum_rows: int
    has_fixed_vectors: bool

    @property
    def is_outer(self) -> bool:
        """Whether vectors lie across rows."""
        return self.forms[0].plan.mapping is RowMapping.OUTER

    @property
    def widths(self) -> tuple[int, ...]:
        """How many neighbouring columns a thread may take at a time, the most first: fewer where a
        size that is known at run time only must be a multiple of them."""
        half = self.vector // 2
        is_open = self.even or not self.has_fixed_vectors
        return (self.vector, half) if is_open and half > 2 else (self.vector,)

    @property
    def uses_clusters(self) -> bool:
        """Whether a form needs the device to have clusters."""
        return any(form.plan.mapping is RowMapping.CLUSTER for form in self.forms)

    @property
    def uses_rows_ahead(self) -> bool:
        """Whether in one of its forms rows come ahead."""
        return any(form.ahead for form in self.forms)


def rows_text(plan: RowPlan) -> RowText:
    """Fill the skeleton from the plan."""
    domain = plan.program.domain
    stores = [s for p in plan.program.phases for s in p.stores] + [*plan.program.row_stores]
    integers = (domain.row, domain.rows, domain.column, domain.columns)
    scope = Scope.of(
        plan.name,
        plan.values,
        plan.program.written,
        (*integers, *stored_integers(tuple(stores))),
        in_place=plan.in_place,
    )
    return RowText(
        KernelText.of(plan, scope),
        tuple(_form(form, form is plan.forms[-1], plan, scope) for form in plan.forms),
        scope.text(domain.rows),
        scope.text(domain.columns),
        plan.vector,
        tuple(scope.factor(size) for size in plan.even),
        plan.parts,
        plan.blocks,
        plan.sum_rows,
        _vectored(plan).constant is not None,
    )


def _vectored(plan: RowPlan) -> Integer:
    """The size that vectors lie along."""
    domain = plan.program.domain
    return domain.rows if plan.forms[0].mapping is RowMapping.OUTER else domain.columns


def _form(form: RowForm, is_last: bool, plan: RowPlan, scope: Scope) -> FormText:
    slots = tuple(
        Slot(scope.names.fresh(f"cache_{number}"), compute_type(dtype))
        for number, dtype in enumerate(form.program.slots)
    )
    scalars = scalars_of(form, plan.program.domain, scope)
    resident = resident_of(form, plan.program.domain, scope)
    shared = shared_of(form, plan.program.domain, scope)
    how = RowLoop(
        vector=plan.vector,
        slots=RegisterSlots(lambda slot: f"{slots[slot].name}[step][element]"),
        merge=_merge(form),
        ahead=True,
        alike_late=form.most_columns is not None and form.mapping is not RowMapping.CLUSTER,
        even=plan.even,
        across=form.mapping is RowMapping.OUTER,
        gathers=form.mapping is RowMapping.OUTER and form.most_columns is None,
        keeps_sums=form.most_columns is not None,
        joins=form.mapping in (RowMapping.PART, RowMapping.BLOCK, RowMapping.CLUSTER),
        copies=copies_of(form, plan.program.domain, scope),
        scalars=scalars,
        resident=resident,
        shared=shared,
        early=form.early,
        shares=(lambda slot: slots[slot].name) if form.by_shares else None,
    )
    program = program_text(form.program, scope, how)
    mapping = form.mapping.name.lower()
    suffix = f"_{mapping}" if form.most_columns is not None else "_looping"
    elements = form.steps * plan.vector
    condition = "" if is_last else _condition(form, plan)
    if form.ahead is None:
        return FormText(suffix, form, mapping, elements, program, slots, condition)
    used = tuple(scalar for scalar in scalars.values() if program.needs(scalar.name))
    ahead = AheadText(
        form.ahead.rows,
        form.ahead_bytes,
        program.copies,
        used,
        tuple(resident.values()),
        tuple(shared.values()),
    )
    return FormText("_ahead", form, mapping, elements, program, slots, condition, ahead)


def _condition(form: RowForm, plan: RowPlan) -> str:
    if form.ahead is not None:
        # With a row a block, none has another to bring, and smaller blocks share the device better.
        return "resident > 0" if plan.blocks else "resident > 0 && rows > resident"
    conditions = [] if form.is_exact else [f"columns <= {form.most_columns}"]
    if form.mapping is RowMapping.CLUSTER:
        conditions.append("has_clusters()")
    return " && ".join(conditions)


def _merge(form: RowForm) -> str:
    if form.mapping is RowMapping.WARP:
        return f"reduce_lanes<{form.lanes}>({{}})"
    if form.mapping is RowMapping.PART:
        return f"reduce_part<{form.lanes}, {form.threads}>({{}}, turn)"
    if form.mapping is RowMapping.BLOCK:
        return f"reduce_block<{form.threads}>({{}}, turn)"
    if form.mapping is RowMapping.CLUSTER:
        return f"reduce_cluster<{form.threads}, {form.cluster}>({{}}, exchange)"
    return f"reduce_outer<{form.rows_a_block}, {form.lanes}>({{}})"
