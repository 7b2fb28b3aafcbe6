"""The text for rows that come ahead: copies to shared memory, and what is read back from there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fusegen.codegen.c_text import compute_type, loaded, storage_type
from fusegen.codegen.loops import place
from fusegen.codegen.scope import Scope
from fusegen.ir.integers import Integer, Symbol
from fusegen.plan.evaluate import Domain
from fusegen.plan.expressions import Load
from fusegen.plan.kernels.rows import RowForm

ROW = "row_ahead"
NEXT_ROW = "next_row"


@dataclass(frozen=True)
class CopyText:
    """One tensor whose rows come ahead: its `RowsAhead` variable, the type of an element, where the
    row `row_ahead` stands in memory from `first_column` on, and the function that starts the copies
    of such a row: `bring(row_ahead, place)`."""

    name: str
    type: str
    source: str
    bring: str


@dataclass(frozen=True)
class ScalarText:
    """One number a row: the variables for the row at hand and the next one, their type, its value
    in the row `next_row`, and the function that gives it: `fetch(next_row)`."""

    name: str
    next: str
    fetch: str
    type: str
    value: str


@dataclass(frozen=True)
class ResidentText:
    """What all rows have alike: the array of a thread's vectors, the type of an element, and what
    fills the vector from `first_column` on."""

    name: str
    type: str
    value: str


@dataclass(frozen=True)
class SharedText:
    """The same in shared memory: its `RowsAhead` variable, the type of an element, and where it
    stands from `first_column` on."""

    name: str
    type: str
    source: str


@dataclass(frozen=True)
class AheadText:
    """What the skeleton needs of rows that come ahead: how many, the bytes in shared memory, what
    of them, and what stays in registers and in shared memory for all of them."""

    rows: int
    bytes: int
    copies: tuple[CopyText, ...]
    scalars: tuple[ScalarText, ...]
    resident: tuple[ResidentText, ...]
    shared: tuple[SharedText, ...]


def copies_of(form: RowForm, domain: Domain, scope: Scope) -> Mapping[Load, CopyText]:
    """The text of each load that comes ahead."""
    if form.ahead is None:
        return {}
    row, column = domain.row.alone, domain.column.alone
    ahead, first = Symbol(ROW, row.extent), Symbol("first_column", column.extent)
    scope.symbols[ahead], scope.symbols[first] = ROW, "first_column"
    at = {row: Integer.of_atom(ahead), column: Integer.of_atom(first)}
    made = {}
    for load in form.ahead.loads:
        name = scope.buffer(load.buffer)
        address = scope.address(load, at)
        made[load] = CopyText(
            scope.names.fresh(f"{name}_ahead"),
            storage_type(load.buffer.dtype),
            place(name, address),
            scope.names.fresh(f"bring_{name}"),
        )
    return made


def scalars_of(form: RowForm, domain: Domain, scope: Scope) -> Mapping[Load, ScalarText]:
    """The text of each number that is loaded a row ahead."""
    if form.ahead is None:
        return {}
    row = domain.row.alone
    after = Symbol(NEXT_ROW, row.extent)
    scope.symbols[after] = NEXT_ROW
    made = {}
    for load in form.ahead.scalars:
        name = scope.buffer(load.buffer)
        address = scope.address(load, {row: Integer.of_atom(after)})
        made[load] = ScalarText(
            scope.names.fresh(f"{name}_of_row"),
            scope.names.fresh(f"{name}_of_next"),
            scope.names.fresh(f"fetch_{name}"),
            compute_type(load.dtype),
            loaded(f"{name}[{address}]", load.dtype),
        )
    return made


def resident_of(form: RowForm, domain: Domain, scope: Scope) -> Mapping[Load, ResidentText]:
    """The text of each load whose vectors stay in registers for all rows."""
    made = {}
    for load in form.ahead.resident if form.ahead else ():
        name = scope.names.fresh(f"{scope.buffer(load.buffer)}_of_all")
        dtype = storage_type(load.buffer.dtype)
        value = f"load_vector<{dtype}, vector>({_source(load, domain, scope)})"
        made[load] = ResidentText(name, dtype, value)
    return made


def shared_of(form: RowForm, domain: Domain, scope: Scope) -> Mapping[Load, SharedText]:
    """The text of each load whose vectors stay in shared memory for all rows."""
    made = {}
    for load in form.ahead.shared if form.ahead else ():
        name = scope.names.fresh(f"{scope.buffer(load.buffer)}_of_all")
        source = _source(load, domain, scope)
        made[load] = SharedText(name, storage_type(load.buffer.dtype), source)
    return made


def _source(load: Load, domain: Domain, scope: Scope) -> str:
    """Where what all rows have alike stands in memory from `first_column` on."""
    column = domain.column.alone
    first = Symbol("first_column", column.extent)
    scope.symbols[first] = "first_column"
    name = scope.buffer(load.buffer)
    return place(name, scope.address(load, {column: Integer.of_atom(first)}))
