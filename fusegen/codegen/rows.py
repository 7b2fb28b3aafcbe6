"""The text of a row kernel."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.codegen.c_text import compute_type
from fusegen.codegen.kernel_text import KernelText
from fusegen.codegen.phases import MemorySlots, ProgramText, program_text
from fusegen.codegen.scope import Scope, stored_integers
from fusegen.plan.kernels import RowMapping, RowPlan, RowProgram


@dataclass(frozen=True)
class Slot:
    """A slot of the row cache: its pointer's name and type, and the bytes a row's element takes in
    the slots ahead of it."""

    name: str
    type: str
    bytes_before: int


@dataclass(frozen=True)
class Variant:
    """One kernel of the family: with the row cache, or streaming where that does not fit."""

    suffix: str
    program: ProgramText
    slots: tuple[Slot, ...]
    cache_bytes: int


@dataclass(frozen=True)
class RowText:
    """What the skeleton `rows.cu.j2` fills in."""

    kernel: KernelText
    variants: tuple[Variant, ...]
    mapping: str
    rows: str
    columns: str
    lanes: int
    threads: int
    vector: int
    merge_bytes: int
    parts: int

    @property
    def rows_a_block(self) -> int:
        """How many rows a block works on at once."""
        return self.threads // self.lanes


def rows_text(plan: RowPlan) -> RowText:
    """Fill the skeleton from the plan."""
    programs = [("", plan.program)]
    if plan.streaming is not None:
        programs.append(("_streaming", plan.streaming))
    domain = plan.program.domain
    stores = [s for p in plan.program.phases for s in p.stores] + [*plan.program.row_stores]
    integers = (domain.row, domain.rows, domain.column, domain.columns)
    values = tuple(v for _, program in programs for v in program.values)
    scope = Scope.of(values, plan.program.written, (*integers, *stored_integers(tuple(stores))))
    variants = tuple(_variant(suffix, program, plan, scope) for suffix, program in programs)
    return RowText(
        KernelText.of(plan, scope),
        variants,
        plan.mapping.name.lower(),
        scope.text(domain.rows),
        scope.text(domain.columns),
        plan.lanes,
        plan.threads,
        plan.vector,
        plan.merge_bytes,
        plan.parts,
    )


def _variant(suffix: str, program: RowProgram, plan: RowPlan, scope: Scope) -> Variant:
    # Slots of wide elements come first, so that each is aligned whatever the number of columns.
    order = sorted(range(len(program.slots)), key=lambda i: -program.slots[i].itemsize)
    slots: dict[int, Slot] = {}
    used = 0
    for index in order:
        dtype = program.slots[index]
        slots[index] = Slot(scope.names.fresh(f"cache_{index}"), compute_type(dtype), used)
        used += dtype.itemsize
    at = "first_column"
    if plan.mapping is RowMapping.OUTER:
        at = f"first_column * {plan.threads // plan.lanes}"
    text = program_text(
        program,
        scope,
        vector=plan.vector,
        slots=MemorySlots(lambda slot: f"{slots[slot].name} + {at}"),
        merge=_merge(plan),
    )
    return Variant(suffix, text, tuple(slots[i] for i in order), used)


def _merge(plan: RowPlan) -> str:
    if plan.mapping is RowMapping.WARP:
        return f"reduce_lanes<{plan.lanes}>"
    if plan.mapping is RowMapping.BLOCK:
        return f"reduce_block<{plan.threads}>"
    return f"reduce_outer<{plan.threads // plan.lanes}, {plan.lanes}>"
