"""Row kernels: reductions along rows with what is fused before and after them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Node, TensorType
from fusegen.ir.integers import ONE, Integer
from fusegen.ops.record import LibraryCall, Monoid, Product, Reduction
from fusegen.plan.access import even_sizes
from fusegen.plan.accounting import row_work
from fusegen.plan.buffers import Buffer, BufferRole, state_bytes
from fusegen.plan.coordinates import flatten, unflatten
from fusegen.plan.cost import Cost
from fusegen.plan.evaluate import Domain, Evaluator, accumulator_dtype
from fusegen.plan.expressions import PartialStates, Reduced, walk
from fusegen.plan.group import Context, Group, NotApplicable
from fusegen.plan.kernels.base import WARP
from fusegen.plan.kernels.row_program import RowProgram
from fusegen.plan.kernels.rows import BUSY_THREADS, RowForm, RowMapping, RowPlan
from fusegen.plan.kernels.stores import StateStore, Store
from fusegen.plan.phases import build_program, loads_of, state_holders
from fusegen.plan.strategies.row_forms import looping, row_forms
from fusegen.plan.strategies.row_layout import Layout, scattered_bytes

# Blocks for each multiprocessor where blocks share rows: enough loads in flight to fill memory.
BLOCKS_A_PROCESSOR = 4
# As many columns as that are reckoned with where few rows are reduced over a size that is known at
# run time only: parts that turn out empty cost little, missing ones much.
LIKELY_COLUMNS = 1 << 16


def plan(group: Group, context: Context) -> tuple[RowPlan, ...]:
    """All of it in one kernel, each row by a warp, by a block, or beside its neighbours."""
    return _plan_whole_rows(group, context, two_pass=True)


def plan_one_pass(group: Group, context: Context) -> tuple[RowPlan, ...]:
    """The same with variances by Welford's recurrence: more arithmetic, one pass less over rows
    that are too long to keep."""
    moments = [n for n in group.having(Reduction) if _is_moments(n)]
    if not moments:
        raise NotApplicable("there is no variance that could save a pass")
    return _plan_whole_rows(group, context, two_pass=False)


def _is_moments(node: Node) -> bool:
    return isinstance(node.operation, Reduction) and node.operation.monoid is Monoid.MOMENTS


def _plan_whole_rows(group: Group, context: Context, *, two_pass: bool) -> tuple[RowPlan, ...]:
    domain = domain_of(group)
    evaluator = context.evaluator(group, domain=domain, two_pass=two_pass)
    elements, rows = stores_of(group, context, evaluator)
    keeping = build_program(domain, elements, rows, (), keep=True)
    streaming = build_program(domain, elements, rows, (), keep=False)
    layout = Layout.of(keeping, context)
    one_pass = _keeping_in_one_pass(group, context) if two_pass else None
    if not layout.is_fixed and len(keeping.phases) == 1 and not elements:
        blocks = -(-context.hints.value(domain.rows) // layout.rows_a_block)
        if blocks < context.device.processors // 2:
            raise NotApplicable("few rows, over a size that may be large at run time")
    forms = row_forms(layout, keeping, streaming, one_pass)
    return (row_plan(group, forms, layout, context),)


def _keeping_in_one_pass(group: Group, context: Context) -> RowProgram | None:
    """The program that keeps a row and has its variances in one pass, if there are any."""
    if not any(_is_moments(node) for node in group.having(Reduction)):
        return None
    domain = domain_of(group)
    evaluator = context.evaluator(group, domain=domain, two_pass=False)
    elements, rows = stores_of(group, context, evaluator)
    return build_program(domain, elements, rows, (), keep=True)


def plan_split(group: Group, context: Context) -> tuple[RowPlan, ...]:
    """Few long rows: many blocks share each, and a second kernel merges their states in order."""
    domain = domain_of(group)
    evaluator = context.evaluator(group, domain=domain, two_pass=False)
    elements, _ = stores_of(group, context, evaluator)
    reductions = reduced_by_node(group, evaluator)
    program = build_program(domain, elements, (), tuple(reductions.values()), keep=False)
    if len(program.phases) != 1:
        raise NotApplicable("a reduction needs the result of another one over the same row")
    layout = Layout.of(program, context)
    parts = _parts(domain, layout, context)
    if parts < 2:
        raise NotApplicable("the rows alone keep the whole device busy, or are short")
    states = state_stores(reductions, context, domain, Integer.of(parts))
    partial = replace(program, states=tuple(dict.fromkeys(states.values())))
    first = replace(
        row_plan(group, (looping(partial, layout),), layout, context, parts),
        why=f"few long rows: {parts} blocks share each and leave partial states",
    )
    return (first, finish(group, context, states, domain, Integer.of(parts)))


def finish(
    group: Group,
    context: Context,
    states: Mapping[Node, StateStore],
    domain: Domain,
    parts: Integer,
) -> RowPlan:
    """The kernel that merges partial states in a fixed order and does what follows them."""
    merged = Domain.of(domain.rows, parts)
    position = merged.row * parts + merged.column
    by_node = {
        node: PartialStates(
            node.dtype, "states", s.buffer, position, monoid_of(node), s.accumulator
        )
        for node, s in states.items()
    }
    evaluator = context.evaluator(group, domain=merged, states=by_node)
    stores = tuple(
        Store(context.buffers[r], merged.row, evaluator.at(r, unflatten(merged.row, r.shape)))
        for r in group.results
        if r.type.count == domain.rows
    )
    program = build_program(merged, (), stores, (), keep=False)
    layout = Layout.of_lanes(program, context, WARP)
    plan = row_plan(group, (looping(program, layout),), layout, context)
    return replace(plan, why="merges the partial states of each row in a fixed order")


def monoid_of(node: Node) -> Monoid:
    """How a reduction combines elements."""
    assert isinstance(node.operation, Reduction)
    return node.operation.monoid


def domain_of(group: Group) -> Domain:
    """The rows and columns of the group's first reduction."""
    if group.having(Product) or group.having(LibraryCall):
        raise NotApplicable("the group has a product or a library call")
    reductions = group.having(Reduction)
    if not reductions:
        raise NotApplicable("nothing is reduced")
    first = reductions[0]
    operand = first.operands[0]
    columns = ONE
    for dim in first.attributes.integers("dims"):
        columns = columns * operand.shape[dim]
    return Domain.of(first.type.count, columns)


def stores_of(
    group: Group, context: Context, evaluator: Evaluator
) -> tuple[tuple[Store, ...], tuple[Store, ...]]:
    """The group's results as stores: for each element, and once a row."""
    domain = evaluator.domain
    assert domain is not None
    first = next(n for n in group.nodes if isinstance(n.operation, Reduction))
    at = flatten(evaluator.domain_coordinates(first), first.operands[0].shape)
    elements, rows = [], []
    for result in group.results:
        buffer = context.buffers[result]
        if result.type.count == domain.rows:
            value = evaluator.at(result, unflatten(domain.row, result.shape))
            rows.append(Store(buffer, domain.row, value))
        elif result.type.count == domain.rows * domain.columns:
            value = evaluator.at(result, unflatten(at, result.shape))
            elements.append(Store(buffer, at, value))
        else:
            raise NotApplicable("a result has neither one element a row nor one a column")
    return tuple(elements), tuple(rows)


def reduced_by_node(group: Group, evaluator: Evaluator) -> dict[Node, Reduced]:
    """The group's reductions as the kernel computes them, none of which may need another."""
    assert evaluator.domain is not None
    reductions: dict[Node, Reduced] = {}
    for node in group.having(Reduction):
        value = evaluator.at(node, unflatten(evaluator.domain.row, node.shape))
        assert isinstance(value, Reduced)
        if any(isinstance(below, Reduced) for below in walk((value.operand,))):
            raise NotApplicable("a reduction needs the result of another one over the same row")
        reductions[node] = value
    return reductions


def state_stores(
    reductions: Mapping[Node, Reduced], context: Context, domain: Domain, parts: Integer
) -> dict[Node, StateStore]:
    """A workspace for each reduction's partial states; equal reductions share one."""
    taken = {buffer.name for buffer in context.buffers.values()}
    made: dict[Reduced, StateStore] = {}
    holders = state_holders(reductions.values())
    for node, reduction in reductions.items():
        if holders[reduction] is not reduction:
            continue
        dtype = accumulator_dtype(reduction.operand.dtype)
        size = domain.rows * parts * state_bytes(reduction.monoid, dtype)
        name = f"{context.buffers[node].name}_states"  # as distinct as the reductions' own names
        while name in taken:
            name = f"{name}_"
        buffer = Buffer(name, BufferRole.WORKSPACE, TensorType((size,), DType.UINT8))
        made.setdefault(reduction, StateStore(buffer, reduction, dtype))
    return {node: made[holders[reduction]] for node, reduction in reductions.items()}


def _parts(domain: Domain, layout: Layout, context: Context) -> int:
    """How many blocks should share a row to keep every multiprocessor's loads in flight."""
    rows = context.hints.value(domain.rows)
    blocks = max(1, -(-rows // layout.rows_a_block))
    wanted = BLOCKS_A_PROCESSOR * context.device.processors // blocks
    columns = layout.columns if layout.is_fixed else max(layout.columns, LIKELY_COLUMNS)
    return max(1, min(wanted, columns // layout.least_part))


def row_plan(
    group: Group,
    forms: tuple[RowForm, ...],
    layout: Layout,
    context: Context,
    parts: int = 1,
) -> RowPlan:
    """The plan of a group with these forms, with its cost under the planner's hints and in which
    way it goes through the rows that these expect; `parts` blocks share a row."""
    hints, device = context.hints, context.device
    form, *others = (f for f in forms if (f.most_columns or layout.columns) >= layout.columns)
    if form.ahead and others[0].most_columns:
        form = others[0]  # what few rows get, of which it matters how many blocks there are
    program = form.program
    work = row_work(program, hints)
    rows_a_block = form.rows_a_block * (layout.vector if layout.is_outer else 1)
    blocks = -(-hints.value(program.domain.rows) // rows_a_block) * form.cluster * parts
    if form.mapping is RowMapping.WARP:
        # With several vectors a thread, as many more bytes are under way.
        blocks *= min(form.steps, -(-layout.columns // (form.lanes * layout.vector)))
    busy = min(1.0, max(1, blocks) / device.processors)
    threads = min(1.0, max(1, blocks) * form.threads / (device.processors * BUSY_THREADS))
    scattered = scattered_bytes(program, layout.is_outer, hints)
    least = max(work.flops / device.rate / threads, scattered / device.bandwidth)
    cost = Cost(work.reads, work.writes, work.flops, occupancy=busy, least_seconds=least)
    kept = "read once and kept in registers" if program.slots else "read in each pass"
    passes = "one pass" if len(program.phases) == 1 else f"{len(program.phases)} passes"
    has_next = hints.value(program.domain.rows) * forms[0].cluster > device.processors
    is_ahead = forms[0].ahead is not None and has_next
    meanwhile = ", while the next rows are copied to shared memory" if is_ahead else ""
    why = f"{passes} over each row, {form.mapping.value}{meanwhile}; {kept}"
    positions = [x.offset for form in forms for x in loads_of(form.program.values)]
    step = program.domain.row if layout.is_outer else program.domain.column
    even = even_sizes(positions, step, layout.vector)
    return RowPlan("", group.nodes, why, cost, forms, layout.vector, even, parts)
