"""The forms of a row kernel, for rows of each length: what they keep of a row, and which come
ahead."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fusegen.ir.dtypes import DType
from fusegen.plan import exchanges
from fusegen.plan.early_loads import early_in_rows
from fusegen.plan.kernels.row_program import RowProgram
from fusegen.plan.kernels.rows import RowForm, RowMapping
from fusegen.plan.strategies import rows_ahead
from fusegen.plan.strategies.row_layout import (
    BLOCK_THREADS,
    KEPT_BYTES,
    MOST_OUTER_LANES,
    WIDEST_BLOCK,
    Layout,
    power_of_two,
)
from fusegen.plan.strategies.row_sharing import (
    Sharing,
    ahead_sharings,
    paired_ahead_sharing,
    sharings,
    summing_ahead_sharings,
    summing_sharings,
)

# Bytes of a row that a thread keeps in registers where it keeps sums over rows, too.
SUMMING_BYTES = 3 * KEPT_BYTES
# Rows from which on blocks of fewer threads keep all multiprocessors busy.
MANY_ROWS = 512


def looping(program: RowProgram, layout: Layout) -> RowForm:
    """The form for rows of any length, which keeps nothing."""
    return RowForm(program, layout.mapping, layout.lanes, layout.threads, layout.steps)


def row_forms(
    layout: Layout, keeping: RowProgram, streaming: RowProgram, one_pass: RowProgram | None = None
) -> tuple[RowForm, ...]:
    """The forms for rows of all lengths that there may be, the shortest rows first; `one_pass` has
    its moments in one pass, if there is such a program."""
    if layout.is_fixed and not keeping.slots:
        return (looping(streaming, layout),)
    item = max(keeping.register_bytes, DType.FLOAT32.itemsize)
    budget = SUMMING_BYTES if keeping.sums else KEPT_BYTES
    most = max(layout.vector, power_of_two(budget // item + 1) // 2)
    ways = [*(summing_sharings if keeping.sums else sharings)(layout, most)]
    if layout.is_fixed:
        ways = [way for way in ways if way.columns >= layout.columns][:1]
    elif not keeping.slots:
        ways = ways[:1]
    forms = [_whole(keeping, way, layout) for way in ways]
    ahead = _ahead(layout, keeping, one_pass, most)
    if layout.is_fixed and forms and forms[0].mapping is not RowMapping.CLUSTER:
        return (*ahead, *forms)
    lanes = MOST_OUTER_LANES if layout.is_outer else _loop_lanes(layout)
    return (*ahead, *forms, looping(streaming, replace(layout, lanes=lanes)))


def _ahead(
    layout: Layout, keeping: RowProgram, one_pass: RowProgram | None, most: int
) -> tuple[RowForm, ...]:
    """The form in which rows come ahead, where it is worth it: with as few exchanges as can be, as
    little or nothing else is done in a multiprocessor meanwhile."""
    device = layout.device
    if device is None:
        return ()
    ways: Iterable[Sharing] = ()
    are_pairs = rows_ahead.may_come_in_pairs(layout, bool(keeping.sums))
    if are_pairs:
        ways = (paired_ahead_sharing(layout),)
    elif rows_ahead.come_ahead(layout, bool(keeping.sums)):
        ways = summing_ahead_sharings(layout, most) if keeping.sums else ahead_sharings(most)
    way = next((way for way in ways if way.columns >= layout.columns), None)
    if way is None:
        return ()
    rows = keeping.domain.rows.constant
    form = _whole(keeping, way, layout)
    at_once = device.processors * form.least_blocks * form.rows_a_block // form.cluster
    if rows is not None and rows <= at_once:
        return ()  # no block ever has another row
    form = _with_few_exchanges(form, one_pass)
    if are_pairs and not rows_ahead.comes_in_pairs(form):
        return ()
    ahead = rows_ahead.ahead_of(form.program, form, layout.vector, device.shared_memory)
    return (replace(form, ahead=ahead),) if ahead else ()


def _whole(program: RowProgram, way: Sharing, layout: Layout) -> RowForm:
    """The form in which threads keep a whole row that they share in this way."""
    vector = 1 if layout.is_outer else layout.vector  # neighbouring columns
    most = way.most
    if layout.is_fixed:
        most = -(-layout.columns // (way.lanes * vector)) * vector
    capacity = way.lanes * most
    return RowForm(
        program,
        way.mapping,
        way.lanes,
        way.threads,
        most // vector,
        most_columns=capacity,
        is_exact=layout.is_fixed and capacity == layout.columns,
        early=() if layout.is_outer else early_in_rows(program, layout.vector),
    )


def _with_few_exchanges(form: RowForm, one_pass: RowProgram | None) -> RowForm:
    """The form with the program in which threads exchange their states least often."""
    fits = one_pass is not None and one_pass.kept_bytes <= form.program.kept_bytes
    is_even = form.is_exact and form.has_even_warps  # all states are of as many elements
    if one_pass is not None and fits and is_even and exchanges.moments_are_kept(one_pass):
        form = replace(form, program=one_pass, by_shares=True)
    return replace(form, program=exchanges.with_powers(form.program))


def _loop_lanes(layout: Layout) -> int:
    """Threads for a row that is read in each pass: smaller blocks share a multiprocessor better
    where there are rows enough."""
    return BLOCK_THREADS if layout.rows >= MANY_ROWS else WIDEST_BLOCK
