"""Products of what is made of other products, in one kernel."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace

from fusegen.ir.graph import Node
from fusegen.ir.integers import ZERO, Integer
from fusegen.ir.integers import product as product_of
from fusegen.ops.record import Product
from fusegen.passes.results import COMPUTED
from fusegen.plan.attention_limits import LEAST_ROWS, MOST_COLUMNS
from fusegen.plan.coordinates import unflatten
from fusegen.plan.cost import Cost
from fusegen.plan.evaluate import Coordinates, Evaluator, NotInKernel
from fusegen.plan.expressions import Expression, Load
from fusegen.plan.group import Context, Group, NotApplicable
from fusegen.plan.kernels.back_to_back import (
    BackToBackAxes,
    BackToBackPlan,
    FirstProduct,
    NarrowOperand,
    SecondProduct,
)
from fusegen.plan.kernels.epilogues import ElementEpilogue
from fusegen.plan.matrix_views import matrix_view
from fusegen.plan.strategies.back_to_back_tiles import (
    cost_of,
    run_of,
    warp_tile,
    warpgroup_tile,
)
from fusegen.plan.strategies.product import VECTORS, element_stores
from fusegen.plan.tensor_cores import PAIR, TENSOR_DTYPES

# So many first and second products share a kernel at most: those of attention's gradients.
MOST_PRODUCTS = 2
WHY = (
    "what is made of products is multiplied again from registers, a tile at a time, so that none "
    "of it is stored"
)


@dataclass(frozen=True)
class _Second:
    """A product of an operand that is made of first products, the left one or, where it
    `is_turned`, the right one: then its columns are the kernel's rows."""

    node: Node
    is_turned: bool

    @property
    def made(self) -> Node:
        """The operand that is made."""
        return self.node.operands[1 if self.is_turned else 0]

    @property
    def other(self) -> Node:
        """The one that is read."""
        return self.node.operands[0 if self.is_turned else 1]

    @property
    def rows(self) -> Integer:
        """The kernel's rows."""
        return self.node.shape[-1 if self.is_turned else -2]

    @property
    def columns(self) -> Integer:
        """The columns that the kernel has of each row."""
        return self.node.shape[-2 if self.is_turned else -1]

    @property
    def middles(self) -> Integer:
        """What it sums over."""
        return self.node.operands[0].shape[-1]


@dataclass(frozen=True)
class _Held:
    """How a kernel meets its first products: an evaluator whose thread holds an element of each,
    and whether their rows and columns are exchanged, by product; and the operands of the second
    ones at the thread's elements."""

    evaluator: Evaluator
    turned: Mapping[Node, bool]
    operands: tuple[Expression, ...]


def plan(group: Group, context: Context) -> tuple[BackToBackPlan, ...]:
    """First products stay in registers, and are made operands of the second ones there."""
    firsts, seconds = _products_of(group)
    axes = _axes_of(firsts, seconds)
    held = _held(firsts, seconds, axes, context.evaluator(group))
    nodes = {second.node for second in seconds}
    if any(not _below(result, group) & nodes for result in group.results):
        raise NotApplicable("what is made of the first products is needed in memory")
    rights: dict[Load, NarrowOperand] = {}

    def right(operand: Node, columns: Integer, *, is_across: bool) -> int:
        found = _operand(held.evaluator, operand, axes, axes.middle, columns, is_across=is_across)
        rights.setdefault(found.load, found)
        return [*rights].index(found.load)

    made_firsts = []
    for node, is_turned in held.turned.items():
        own, other = reversed(node.operands) if is_turned else node.operands
        depth = node.operands[0].shape[-1]
        left = _operand(held.evaluator, own, axes, axes.row, depth, is_across=is_turned)
        made_firsts.append(FirstProduct(left, right(other, depth, is_across=not is_turned)))
    made_seconds = []
    for second, operand in zip(seconds, held.operands, strict=True):
        number = right(second.other, second.columns, is_across=second.is_turned)
        has_pairs = not second.is_turned and second.columns % PAIR == ZERO
        epilogue = _epilogue(group, context, second, axes, [*rights.values()][number].column)
        made_seconds.append(SecondProduct(operand, number, PAIR if has_pairs else 1, epilogue))
    made = BackToBackPlan(
        "",
        group.nodes,
        WHY,
        Cost(0, 0, 0),
        axes,
        warp_tile([first.left for first in made_firsts], rights.values()),
        warpgroup_tile(
            len(made_firsts), [[*rights.values()][second.right] for second in made_seconds]
        ),
        run_of(rights.values()),
        tuple(rights.values()),
        tuple(made_firsts),
        tuple(made_seconds),
    )
    return (replace(made, cost=cost_of(made, context)),)


def _products_of(group: Group) -> tuple[tuple[Node, ...], tuple[_Second, ...]]:
    """The products whose results are made operands of others, and these."""
    products = group.having(Product)
    of_products = {n: tuple(_below(o, group) & {*products} for o in n.operands) for n in products}
    firsts = tuple(node for node in products if not any(of_products[node]))
    seconds = tuple(
        _Second(node, is_turned=not of_products[node][0])
        for node in products
        if any(of_products[node])
    )
    if not (0 < len(firsts) <= MOST_PRODUCTS and 0 < len(seconds) <= MOST_PRODUCTS):
        raise NotApplicable("the group has not one or two products of what is made of others")
    if any(_below(second.made, group) & {s.node for s in seconds} for second in seconds):
        raise NotApplicable("products of products are multiplied again")
    dtype = products[0].dtype
    if dtype not in TENSOR_DTYPES or any(node.dtype is not dtype for node in products):
        raise NotApplicable("only products of 16 bits share a kernel")
    return firsts, seconds


def _below(value: Node, group: Group) -> set[Node]:
    """The operations of a group that a value is made of."""
    found: set[Node] = set()
    stack = [value]
    seen: set[Node] = set()
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            if node in group.nodes:
                found.add(node)
            stack += node.operands
    return found


def _axes_of(firsts: tuple[Node, ...], seconds: tuple[_Second, ...]) -> BackToBackAxes:
    rows, middles = seconds[0].rows, seconds[0].middles
    nodes = (*firsts, *(second.node for second in seconds))
    batches = product_of(nodes[0].shape[:-2])
    if any(node.shape[-2:] not in ((rows, middles), (middles, rows)) for node in firsts):
        raise NotApplicable("a product has other elements than the operand made of it")
    if any((second.rows, second.middles) != (rows, middles) for second in seconds):
        raise NotApplicable("the operands that are made have not the same shape")
    if any(product_of(node.shape[:-2]) != batches for node in nodes):
        raise NotApplicable("the products have not the same batches")
    if ZERO in (batches, rows, middles):
        raise NotApplicable("there is nothing to multiply")
    if rows.constant is not None and rows.constant < LEAST_ROWS:
        raise NotApplicable(f"{rows.constant} rows are few for a tile")
    return BackToBackAxes(
        Integer.symbol("batch_index", batches),
        Integer.symbol("row", rows),
        Integer.symbol("middle", middles),
        batches,
        rows,
        middles,
    )


def _held(
    firsts: tuple[Node, ...],
    seconds: tuple[_Second, ...],
    axes: BackToBackAxes,
    evaluator: Evaluator,
) -> _Held:
    """The first of the ways to hold the products that gives the thread's own elements of what is
    made of them. Raises `NotInKernel` where none does."""
    refused = NotInKernel("what is made of the products is no single element")
    for turns in itertools.product((False, True), repeat=len(firsts)):
        turned = dict(zip(firsts, turns, strict=True))
        places = {node: _element(node, axes, is_turned=turn) for node, turn in turned.items()}
        trial = replace(evaluator, products=places, done={})
        try:
            operands = tuple(
                trial.at(second.made, _element(second.made, axes, is_turned=second.is_turned))
                for second in seconds
            )
        except NotInKernel as refusal:
            refused = refusal
            continue
        return _Held(trial, turned, operands)
    raise refused


def _element(node: Node, axes: BackToBackAxes, *, is_turned: bool) -> Coordinates:
    """Where a thread's element of a first product, or of what is made of it, stands there."""
    place = (axes.middle, axes.row) if is_turned else (axes.row, axes.middle)
    return _at(node, axes, *place)


def _at(node: Node, axes: BackToBackAxes, line: Integer, column: Integer) -> Coordinates:
    return (*unflatten(axes.batch, node.shape[:-2]), line, column)


def _operand(
    evaluator: Evaluator,
    operand: Node,
    axes: BackToBackAxes,
    line: Integer,
    columns: Integer,
    *,
    is_across: bool,
) -> NarrowOperand:
    """An operand with its lines along `line`; one that `is_across` has these in its last dim."""
    if columns.constant is None:
        raise NotApplicable("how wide an operand is is not known before the call")
    if not 0 < columns.constant <= MOST_COLUMNS:
        raise NotApplicable(f"an operand is wider than {MOST_COLUMNS}")
    column = Integer.symbol("column", columns)
    place = (column, line) if is_across else (line, column)
    load = evaluator.at(operand, _at(operand, axes, *place))
    if not isinstance(load, Load) or load.buffer.dtype is not load.dtype:
        raise NotApplicable("an operand is made of more than one element in memory")
    return NarrowOperand(load, column, matrix_view(load, axes.batch, line, column))


def _epilogue(
    group: Group, context: Context, second: _Second, axes: BackToBackAxes, column: Integer
) -> ElementEpilogue:
    """What is done with the elements of a second product, which nothing else in the group needs."""
    after = {second.node}
    of_products = {*group.having(Product)}
    for node in group.nodes:
        if any(after & _read(operand) for operand in node.operands):
            after.add(node)
        if any(of_products & _read(operand) for operand in node.operands):
            of_products.add(node)
    others = of_products - after
    own = Group(
        tuple(node for node in group.nodes if node not in others),
        tuple(result for result in group.results if result in after),
    )
    finishing = (node for node in own.nodes if node is not second.node)
    if any(others & _read(operand) for node in finishing for operand in node.operands):
        raise NotApplicable("a result is made of more than one second product")
    (line, lines), (at, count) = (axes.row, axes.rows), (column, second.columns)
    if second.is_turned:
        (line, lines), (at, count) = (at, count), (line, lines)
    position = (axes.batch * lines + line) * count + at
    vectors = () if second.is_turned else VECTORS
    return ElementEpilogue(element_stores(own, context, second.node, position, column, vectors))


def _read(operand: Node) -> set[Node]:
    """The values that an operand is read from, through views."""
    found: set[Node] = set()
    stack = [operand]
    while stack:
        node = stack.pop()
        if isinstance(node.operation, COMPUTED):
            found.add(node)
        else:
            stack += node.operands
    return found
