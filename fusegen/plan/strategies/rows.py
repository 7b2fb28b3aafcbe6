"""Row kernels: reductions along rows with what is fused before and after them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Node, TensorType
from fusegen.ir.integers import ONE, Integer
from fusegen.ops.record import LibraryCall, Monoid, Product, Reduction
from fusegen.plan.access import Access, access
from fusegen.plan.accounting import row_work
from fusegen.plan.buffers import Buffer, BufferRole, state_bytes
from fusegen.plan.coordinates import flatten, unflatten
from fusegen.plan.cost import Cost
from fusegen.plan.evaluate import Domain, Evaluator, accumulator_dtype
from fusegen.plan.expressions import PartialStates, Reduced, walk
from fusegen.plan.group import Context, Group, NotApplicable
from fusegen.plan.kernels import RowMapping, RowPlan, RowProgram, StateStore, Store
from fusegen.plan.phases import build_program, loads_of
from fusegen.plan.strategies.elementwise import ACCESS_BYTES, MOST_ELEMENTS

BLOCK_THREADS = 256
WIDEST_BLOCK = 512
# A warp takes a row up to this many columns; a block of its own takes a longer one.
WARP_COLUMNS = 1024
# Each thread should have this many vectors of a row before more threads pay.
VECTORS_A_THREAD = 4
# A part of a row should be long enough to be worth a block.
LEAST_PART = 2048
# Rows per block where neighbouring threads work on neighbouring rows.
OUTER_ROWS = 32
# Shared memory that a block can have on every device from compute capability 8.0 on (CUDA
# programming guide, technical specifications): those of 8.6, 8.9 and 12.0 have the least.
LEAST_SHARED_MEMORY = 99 * 1024
WARP = 32
SHARED_ALIGNMENT = 128


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
    shape = _shape(domain, keeping, context)
    columns = context.hints.value(domain.columns)
    if shape.shared_bytes(keeping, columns) > context.device.shared_memory:
        keeping = streaming
    return (_row_plan(group, keeping, streaming, shape, context),)


def plan_split(group: Group, context: Context) -> tuple[RowPlan, ...]:
    """Few long rows: many blocks share each, and a second kernel merges their states in order."""
    domain = domain_of(group)
    evaluator = context.evaluator(group, domain=domain, two_pass=False)
    elements, _ = stores_of(group, context, evaluator)
    reductions = reduced_by_node(group, evaluator)
    program = build_program(domain, elements, (), tuple(reductions.values()), keep=False)
    if len(program.phases) != 1:
        raise NotApplicable("a reduction needs the result of another one over the same row")
    shape = _shape(domain, program, context)
    parts = _parts(domain, shape, context)
    if parts < 2:
        raise NotApplicable("the rows alone keep the whole device busy, or are short")
    states = state_stores(reductions, context, domain, Integer.of(parts))
    partial = replace(program, states=tuple(dict.fromkeys(states.values())))
    first = replace(
        _row_plan(group, partial, partial, replace(shape, parts=parts), context),
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
            node.dtype, "states", s.buffer, position, s.reduction.monoid, s.accumulator
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
    plan = _row_plan(
        group, program, program, _Shape(RowMapping.WARP, WARP, BLOCK_THREADS, 1), context
    )
    return replace(plan, why="merges the partial states of each row in a fixed order")


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
    for node, reduction in reductions.items():
        dtype = accumulator_dtype(reduction.operand.dtype)
        size = domain.rows * parts * state_bytes(reduction.monoid, dtype)
        name = f"{context.buffers[node].name}_states"  # as distinct as the reductions' own names
        while name in taken:
            name = f"{name}_"
        buffer = Buffer(name, BufferRole.WORKSPACE, TensorType((size,), DType.UINT8))
        made.setdefault(reduction, StateStore(buffer, reduction, dtype))
    return {node: made[reduction] for node, reduction in reductions.items()}


@dataclass(frozen=True)
class _Shape:
    """How threads are laid over rows and columns."""

    mapping: RowMapping
    lanes: int
    threads: int
    vector: int
    parts: int = 1

    @property
    def rows_a_block(self) -> int:
        return self.threads // self.lanes

    def shared_bytes(self, program: RowProgram, columns: int) -> int:
        """The shared memory of a block: the row cache, and what merging states takes."""
        item = sum(dtype.itemsize for dtype in program.slots)
        return self.rows_a_block * columns * item + self.merge_bytes(program)

    def merge_bytes(self, program: RowProgram) -> int:
        """One array for each type of state (`reduce_block`, `reduce_outer` in `reduce.cuh`)."""
        kinds = {
            (reduction.monoid, accumulator_dtype(reduction.operand.dtype))
            for phase in program.phases
            for reduction in phase.reductions
        }
        states = {
            RowMapping.WARP: 0,
            RowMapping.BLOCK: self.threads // WARP,
            RowMapping.OUTER: self.threads,
        }[self.mapping]
        used = sum(_aligned(states * state_bytes(*kind), 16) for kind in kinds)
        return _aligned(used, SHARED_ALIGNMENT)


def _shape(domain: Domain, program: RowProgram, context: Context) -> _Shape:
    """Lay threads along whichever direction most bytes are neighbours in."""
    columns = context.hints.value(domain.columns)
    along_rows = along_columns = 0
    narrowest = ACCESS_BYTES
    for itemsize, weight in _weighted_accesses(program, context):
        narrowest = min(narrowest, itemsize)
        along_columns += weight.columns
        along_rows += weight.rows
    if along_rows > along_columns:
        return _Shape(RowMapping.OUTER, BLOCK_THREADS // OUTER_ROWS, BLOCK_THREADS, 1)
    vector = min(ACCESS_BYTES // narrowest, MOST_ELEMENTS)
    while domain.columns.constant is not None and domain.columns.constant % vector:
        vector //= 2
    wanted = _power_of_two(-(-columns // vector))
    if columns <= WARP_COLUMNS:
        return _Shape(RowMapping.WARP, min(wanted, WARP), BLOCK_THREADS, vector)
    threads = min(max(wanted // VECTORS_A_THREAD, 128), WIDEST_BLOCK)
    return _Shape(RowMapping.BLOCK, threads, threads, vector)


@dataclass(frozen=True)
class _Weight:
    rows: int
    columns: int


def _weighted_accesses(program: RowProgram, context: Context) -> list[tuple[int, _Weight]]:
    """For each buffer touched along the columns: its item size, and its bytes' direction. A vector
    that all rows read weighs little, as it is small."""
    domain = program.domain
    touched: list[tuple[Buffer, Integer]] = []
    for phase in program.phases:
        values = (*(r.operand for r in phase.reductions), *(s.value for s in phase.stores))
        touched += [(x.buffer, x.offset) for x in loads_of(values)]
        touched += [(s.buffer, s.position) for s in phase.stores]
    found = []
    for buffer, position in dict.fromkeys(touched):
        if domain.column.alone not in position.symbols():
            continue
        moved = context.hints.value(buffer.bytes)
        columns = moved * (access(position, domain.column, 1) is Access.CONTIGUOUS)
        rows = moved * (access(position, domain.row, 1) is Access.CONTIGUOUS)
        found.append((buffer.dtype.itemsize, _Weight(rows if not columns else 0, columns)))
    return found


def _parts(domain: Domain, shape: _Shape, context: Context) -> int:
    """How many blocks should share a row so that there are two for each multiprocessor."""
    rows = context.hints.value(domain.rows)
    columns = context.hints.value(domain.columns)
    across = OUTER_ROWS if shape.mapping is RowMapping.OUTER else shape.rows_a_block
    blocks = max(1, -(-rows // across))
    least = LEAST_PART // OUTER_ROWS if shape.mapping is RowMapping.OUTER else LEAST_PART
    return max(1, min(2 * context.device.processors // blocks, columns // least))


def _row_plan(
    group: Group, program: RowProgram, streaming: RowProgram, shape: _Shape, context: Context
) -> RowPlan:
    hints, device = context.hints, context.device
    work = row_work(program, hints)
    blocks = max(1, -(-hints.value(program.domain.rows) // shape.rows_a_block)) * shape.parts
    cost = Cost(work.reads, work.writes, work.flops, occupancy=min(1.0, blocks / device.processors))
    columns = program.domain.columns.constant
    fits = columns is not None and shape.shared_bytes(program, columns) <= LEAST_SHARED_MEMORY
    fallback = streaming if program.slots and not fits else None
    kept = "read once and kept in shared memory" if program.slots else "read in each pass"
    passes = "one pass" if len(program.phases) == 1 else f"{len(program.phases)} passes"
    why = f"{passes} over each row, {shape.mapping.value}; {kept}"
    return RowPlan(
        "",
        group.nodes,
        why,
        cost,
        program,
        fallback,
        shape.mapping,
        shape.lanes,
        shape.threads,
        shape.vector,
        shape.merge_bytes(program),
        shape.parts,
    )


def _aligned(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple


def _power_of_two(least: int) -> int:
    return 1 << max(least - 1, 0).bit_length()
