"""Row kernels that sum over rows, too: the gradients of a normalisation and of its parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd

from fusegen.ir.graph import Node
from fusegen.ir.integers import Integer
from fusegen.ops.record import Monoid, Reduction, Reshape, View
from fusegen.plan.coordinates import unflatten
from fusegen.plan.evaluate import Domain
from fusegen.plan.expressions import Expression
from fusegen.plan.group import Context, Group, NotApplicable
from fusegen.plan.kernels.row_program import ColumnSum
from fusegen.plan.kernels.rows import SUMMING_THREADS, RowForm, RowPlan
from fusegen.plan.kernels.stores import Store
from fusegen.plan.phases import build_program
from fusegen.plan.strategies.partial_sums import parts_of, summand, workspaces
from fusegen.plan.strategies.row_forms import looping, row_forms
from fusegen.plan.strategies.row_layout import OUTER_LANES, Layout
from fusegen.plan.strategies.rows import domain_of, row_plan, stores_of

# Blocks beyond those that are busy at once, as a factor, that may be needed for each thread to
# meet the same columns in every row.
MOST_WAVES = 4
# Multiprocessors that share a cluster of two blocks, or of more, come in lots of so many; those
# beyond stay idle. Of 132, clusters of 4 and 8 get 120 (cudaOccupancyMaxActiveClusters, H200).
PAIR_PROCESSORS = 16
CLUSTER_PROCESSORS = 24


def plan(group: Group, context: Context) -> tuple[RowPlan, RowPlan]:
    """Rows in one kernel, whose threads keep sums over the rows that they work on; a second kernel
    adds these in a fixed order."""
    cut = _Cut.of(group)
    domain = domain_of(cut.rows)
    width = _width(cut, domain)
    evaluator = context.evaluator(group, domain=domain)
    elements, row_stores = stores_of(cut.rows, context, evaluator)
    values = {node: summand(node, cut.rows, evaluator) for node in cut.sums}
    slots = width // _constant(domain.columns)

    def forms_of(made: dict[Node, ColumnSum]) -> tuple[Layout, tuple[RowForm, ...]]:
        sums = tuple(dict.fromkeys(made.values()))
        keeping = build_program(domain, elements, row_stores, (), keep=True, sums=sums)
        streaming = build_program(domain, elements, row_stores, (), keep=False, sums=sums)
        layout = Layout.of(keeping, context)
        if layout.is_outer:
            raise NotApplicable("rows lie beside each other in memory")
        return layout, row_forms(layout, keeping, streaming)

    # How many sums there are depends on the form, and the form on the bytes of each.
    layout, forms = forms_of(_column_sums(values, context, domain.columns))
    form = forms[0]
    if form.most_columns is None:
        raise NotApplicable("a row is too long to keep it and sums over rows")
    blocks = _blocks(form, slots, context)
    # Rows of one block that lie whole rows of the first dims apart have the same sums.
    sum_rows = form.rows_a_block if form.rows_a_block % slots else slots
    made = _column_sums(values, context, domain.columns * (blocks * sum_rows))
    first = replace(
        row_plan(cut.rows, forms_of(made)[1], layout, context),
        covers=group.nodes,
        blocks=blocks,
        sum_rows=sum_rows,
        why=f"{len(form.program.phases)} passes over each row, {form.mapping.value}; read once "
        "and kept in registers, as are sums over a block's rows",
    )
    parts = blocks * sum_rows // slots
    return (first, _finish(group, cut, context, made, Integer.of(width), Integer.of(parts)))


@dataclass(frozen=True)
class _Cut:
    """A group in two: what rows do, and the `sums` over rows with what follows them."""

    rows: Group
    sums: tuple[Node, ...]
    finished: Group

    @staticmethod
    def of(group: Group) -> _Cut:
        sums = tuple(node for node in group.having(Reduction) if _is_sum_over_rows(node))
        after: set[Node] = set(sums)
        for node in group.nodes:
            if any(operand in after for operand in _operands(node)):
                after.add(node)
        if not sums:
            raise NotApplicable("nothing is summed over rows")
        before = tuple(node for node in group.nodes if node not in after)
        return _Cut(
            Group(before, tuple(r for r in group.results if r not in after)),
            sums,
            Group(
                tuple(node for node in group.nodes if node in after),
                tuple(r for r in group.results if r in after),
            ),
        )


def _operands(node: Node) -> tuple[Node, ...]:
    """The values that an operation reads, views looked through."""
    found = []
    stack = list(node.operands)
    while stack:
        operand = stack.pop()
        found.append(operand)
        if isinstance(operand.operation, (View, Reshape)):
            stack.extend(operand.operands)
    return tuple(found)


def _is_sum_over_rows(node: Node) -> bool:
    """Whether it sums over the first dims only."""
    assert isinstance(node.operation, Reduction)
    dims = node.attributes.integers("dims")
    rank = node.operands[0].type.rank
    is_leading = dims == tuple(range(len(dims))) and len(dims) < rank
    return node.operation.monoid is Monoid.SUM and is_leading


def _width(cut: _Cut, domain: Domain) -> int:
    """How many sums there are of each kind: the columns of all rows between one row of the first
    dims and the next."""
    last = cut.rows.having(Reduction)[0]
    dims, rank = last.attributes.integers("dims"), last.operands[0].type.rank
    if dims != tuple(range(rank - len(dims), rank)):
        raise NotApplicable("a row's columns are not its last dims")
    widths = {node.type.count for node in cut.sums}
    elements = {node.operands[0].type.count for node in cut.sums}
    if len(widths) > 1 or elements != {domain.rows * domain.columns}:
        raise NotApplicable("sums over rows run over other elements than the rows")
    width = _constant(widths.pop())
    if width % _constant(domain.columns):
        raise NotApplicable("sums over rows end inside a row")
    return width


def _constant(size: Integer) -> int:
    if size.constant is None:
        raise NotApplicable("sums over rows need a size that is known at run time only")
    return size.constant


def _column_sums(
    values: dict[Node, Expression], context: Context, size: Integer
) -> dict[Node, ColumnSum]:
    """The sums over rows of these values, with workspaces of `size`."""
    made = workspaces(values, context, size, "_of_rows")
    return {node: ColumnSum(buffer, values[node]) for node, buffer in made.items()}


def _blocks(form: RowForm, slots: int, context: Context) -> int:
    """Enough blocks to fill the device, such that a thread meets the same of the `slots` rows
    between one row of the first dims and the next again and again."""
    processors = context.device.processors
    if form.cluster > 1:
        lot = PAIR_PROCESSORS if form.cluster == 2 else CLUSTER_PROCESSORS
        processors = processors // lot * lot // form.cluster
    wanted = processors * max(1, SUMMING_THREADS // form.threads)
    step = slots // gcd(slots, form.rows_a_block)
    blocks = -(-wanted // step) * step
    if blocks > MOST_WAVES * wanted:
        raise NotApplicable("too many blocks would keep sums over rows")
    return blocks


def _finish(
    group: Group,
    cut: _Cut,
    context: Context,
    sums: dict[Node, ColumnSum],
    width: Integer,
    parts: Integer,
) -> RowPlan:
    """The kernel that adds up what blocks have left in a fixed order and does what follows."""
    domain = Domain.of(width, parts)
    position = domain.column * width + domain.row
    states = parts_of({node: s.buffer for node, s in sums.items()}, position)
    evaluator = context.evaluator(group, domain=domain, states=states)
    stores = tuple(
        Store(context.buffers[r], domain.row, evaluator.at(r, unflatten(domain.row, r.shape)))
        for r in cut.finished.results
    )
    if any(result.type.count != width for result in cut.finished.results):
        raise NotApplicable("a result is neither a sum over rows nor made from one")
    program = build_program(domain, (), stores, (), keep=False)
    layout = Layout(_constant(width), _constant(parts), True, True, 1, OUTER_LANES)
    made = row_plan(cut.finished, (looping(program, layout),), layout, context)
    return replace(made, why="adds up the sums that blocks have left, in a fixed order")
