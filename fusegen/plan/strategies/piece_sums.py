"""Row kernels that sum over pieces of rows, too: a group norm's gradient, and what its parameters'
gradients need of each channel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Node
from fusegen.ir.integers import Integer
from fusegen.ops.record import Monoid, Reduction
from fusegen.plan.coordinates import unflatten
from fusegen.plan.evaluate import Domain
from fusegen.plan.expressions import Expression
from fusegen.plan.group import Context, Group, NotApplicable
from fusegen.plan.kernels.base import WARP
from fusegen.plan.kernels.row_program import PieceSum, RowProgram
from fusegen.plan.kernels.rows import BUSY_BYTES, RowForm, RowMapping, RowPlan
from fusegen.plan.kernels.stores import Store
from fusegen.plan.phases import build_program
from fusegen.plan.strategies import rows_ahead
from fusegen.plan.strategies.partial_sums import parts_of, summand, workspaces
from fusegen.plan.strategies.row_forms import looping
from fusegen.plan.strategies.row_layout import WIDEST_BLOCK, Layout
from fusegen.plan.strategies.row_sharing import AHEAD_THREADS, WIDEST_CLUSTER
from fusegen.plan.strategies.rows import domain_of, monoid_of, row_plan, stores_of

# The columns that a thread keeps of rows as a group norm's backward has them: two values of float32
# for each, the input's and the incoming gradient's, in half its registers.
KEPT_COLUMNS = BUSY_BYTES // (2 * DType.FLOAT32.itemsize)


def keeps(columns: int, piece: int) -> bool:
    """Whether a kernel as `plan` makes them can keep rows of so many columns in pieces of so many,
    which decides whether such rows are summed over at once, or piece by piece: with a warp or
    several for each piece, and a block or a cluster, which has a power of two of threads, for each
    row."""
    shortest = KEPT_COLUMNS * WARP
    longest = KEPT_COLUMNS * WIDEST_BLOCK * WIDEST_CLUSTER
    are_powers = not columns & (columns - 1) and not piece & (piece - 1)
    return are_powers and piece >= shortest and columns <= longest


def plan(group: Group, context: Context) -> tuple[RowPlan, RowPlan]:
    """Rows in one kernel, each warp of which has columns of one piece of a row and leaves what
    it sums of them; a second kernel adds these in a fixed order."""
    cut = _Cut.of(group)
    domain = domain_of(cut.rows)
    piece = _piece(cut, domain)
    evaluator = context.evaluator(group, domain=domain)
    elements, row_stores = stores_of(cut.rows, context, evaluator)
    values = {node: summand(node, cut.rows, evaluator) for node in cut.sums}

    def programs(made: dict[Node, PieceSum]) -> tuple[RowProgram, RowProgram]:
        pieces = tuple(dict.fromkeys(made.values()))
        keeping, streaming = (
            build_program(domain, elements, row_stores, (), keep=keep, pieces=pieces)
            for keep in (True, False)
        )
        return keeping, streaming

    # How many sums there are depends on how many columns a thread keeps, and that on the program.
    keeping, _ = programs(_piece_sums(values, context, domain.columns))
    layout = Layout.of(keeping, context)
    most = _columns_a_thread(keeping, layout, piece)
    warps = domain.columns.constant // (most * WARP) if domain.columns.constant else 0
    made = _piece_sums(values, context, domain.rows * warps)
    forms = tuple(_forms(*programs(made), layout, piece, most))
    if not forms:
        raise NotApplicable("no blocks have as many threads as keep a row in pieces")
    found = row_plan(cut.rows, forms, layout, context)
    first = replace(found, covers=group.nodes, why=f"{found.why}; sums of its pieces by warps")
    parts = Integer.of(piece // (most * WARP))
    return (first, _finish(cut, context, made, parts))


@dataclass(frozen=True)
class _Cut:
    """A group in two: what rows do, and the sums over pieces of rows."""

    rows: Group
    sums: tuple[Node, ...]

    @staticmethod
    def of(group: Group) -> _Cut:
        reductions = group.having(Reduction)
        if not reductions:
            raise NotApplicable("nothing is summed over pieces of rows")
        longest = max((_columns(node) for node in reductions), default=0)
        sums = tuple(node for node in reductions if _columns(node) < longest)
        if not sums or longest == 0:
            raise NotApplicable("nothing is summed over pieces of rows")
        inside = set(sums)
        if any(operand in inside for node in group.nodes for operand in node.operands):
            raise NotApplicable("a sum over pieces of rows is needed in the same kernel")
        before = tuple(node for node in group.nodes if node not in inside)
        return _Cut(Group(before, tuple(r for r in group.results if r not in inside)), sums)


def _columns(node: Node) -> int:
    """How many elements a reduction over the last dims takes; 0 for others and open sizes."""
    dims, operand = node.attributes.integers("dims"), node.operands[0]
    rank = operand.type.rank
    if dims != tuple(range(rank - len(dims), rank)):
        return 0
    total = 1
    for dim in dims:
        total *= operand.shape[dim].constant or 0
    return total


def _piece(cut: _Cut, domain: Domain) -> int:
    """The columns of a piece, the same for all sums."""
    lengths = {_columns(node) for node in cut.sums}
    elements = {node.operands[0].type.count for node in cut.sums}
    are_sums = all(monoid_of(node) is Monoid.SUM for node in cut.sums)
    if len(lengths) > 1 or elements != {domain.rows * domain.columns} or not are_sums:
        raise NotApplicable("sums run over other elements than pieces of the rows")
    (piece,) = lengths
    if not piece or (domain.columns.constant or 1) % piece:
        raise NotApplicable("sums end inside a piece of a row")
    return piece


def _piece_sums(
    values: dict[Node, Expression], context: Context, size: Integer
) -> dict[Node, PieceSum]:
    """The sums over pieces of these values, with workspaces of `size`."""
    made = workspaces(values, context, size, "_of_warps")
    return {node: PieceSum(buffer, values[node]) for node, buffer in made.items()}


def _columns_a_thread(program: RowProgram, layout: Layout, piece: int) -> int:
    """As many as half a thread's registers keep, if whole warps share a piece so."""
    if layout.is_outer or not layout.is_fixed:
        raise NotApplicable("rows lie beside each other in memory, or have an open length")
    item = max(program.register_bytes, DType.FLOAT32.itemsize)
    most = 1 << (BUSY_BYTES // item).bit_length() - 1
    if most < layout.vector or piece % (most * WARP):
        raise NotApplicable("a piece of a row is not that of whole warps")
    return most


def _forms(
    keeping: RowProgram, streaming: RowProgram, layout: Layout, piece: int, most: int
) -> Iterator[RowForm]:
    """That with rows that come ahead, that with blocks or a cluster, and one that reads rows in
    each phase, piece by piece, for devices without clusters."""
    lanes = layout.columns // most
    if rows_ahead.come_ahead(layout, False) and layout.device:
        form = _kept(keeping, lanes, AHEAD_THREADS, most, layout.vector, piece)
        memory = layout.device.shared_memory
        ahead = rows_ahead.ahead_of(keeping, form, layout.vector, memory) if form else None
        if form and ahead:
            yield replace(form, ahead=ahead)
    is_block = lanes <= AHEAD_THREADS
    threads = lanes if is_block else WIDEST_BLOCK
    kept = _kept(keeping, lanes, threads, most, layout.vector, piece)
    own = piece // most
    if kept and (is_block or own <= AHEAD_THREADS):
        yield kept
        if not is_block:
            steps = most // layout.vector
            yield RowForm(streaming, RowMapping.BLOCK, own, own, steps, piece_lanes=own)


def _kept(
    program: RowProgram, lanes: int, threads: int, most: int, vector: int, piece: int
) -> RowForm | None:
    """Rows by a block of `threads`, or a cluster of such blocks, if there is one with `lanes`."""
    blocks = lanes // threads
    is_power_of_two = not threads & (threads - 1)  # as exchanges between a cluster's blocks need
    if lanes % threads or blocks not in (1, 2, 4, WIDEST_CLUSTER) or not is_power_of_two:
        return None
    return RowForm(
        program,
        RowMapping.CLUSTER if blocks > 1 else RowMapping.BLOCK,
        lanes,
        threads,
        most // vector,
        most_columns=lanes * most,
        is_exact=True,
        piece_lanes=piece // most,
    )


def _finish(cut: _Cut, context: Context, sums: dict[Node, PieceSum], parts: Integer) -> RowPlan:
    """The kernel that adds up what warps have left of each piece, in a fixed order."""
    count = cut.sums[0].type.count
    domain = Domain.of(count, parts)
    position = domain.row * parts + domain.column
    states = parts_of({node: s.buffer for node, s in sums.items()}, position)
    group = Group(cut.sums, cut.sums)
    evaluator = context.evaluator(group, domain=domain, states=states)
    stores = tuple(
        Store(
            context.buffers[node], domain.row, evaluator.at(node, unflatten(domain.row, node.shape))
        )
        for node in cut.sums
    )
    program = build_program(domain, (), stores, (), keep=False)
    lanes = min(WARP, parts.constant or WARP)
    layout = Layout.of_lanes(program, context, lanes)
    made = row_plan(group, (looping(program, layout),), layout, context)
    return replace(
        made, why="adds up the sums that warps have left of each piece, in a fixed order"
    )
