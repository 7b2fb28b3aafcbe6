"""Convolutions of images with few channels, and what is done with their elements.

A kernel computes the convolution and all that follows for each element, and stores nothing else.
Where a normalisation follows, its statistics are gathered in a first kernel, and a second one
computes the convolution again: with few channels that takes less time than storing it.
"""

from __future__ import annotations

from dataclasses import replace

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Node
from fusegen.ir.integers import ZERO, Integer
from fusegen.ir.integers import product as product_of
from fusegen.ops.primitive.convolutions import CONVOLUTION
from fusegen.ops.record import LibraryCall, Monoid, Pointwise, Reduction
from fusegen.passes.results import COMPUTED
from fusegen.plan.accounting import elementwise_work
from fusegen.plan.buffers import Buffer
from fusegen.plan.coordinates import flatten, unflatten
from fusegen.plan.cost import Cost
from fusegen.plan.evaluate import Domain, Evaluator
from fusegen.plan.expressions import Expression, Load, Reduced
from fusegen.plan.group import Context, Group, NotApplicable
from fusegen.plan.kernels.convolution import ConvolutionAxes, ConvolutionPlan
from fusegen.plan.kernels.module import Step
from fusegen.plan.kernels.stores import StateStore, Store
from fusegen.plan.pixel_tiles import LANE_PIXELS, axes_of, pixel_tile, window_of
from fusegen.plan.strategies.rows import finish, monoid_of, state_stores

DTYPES = (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32)
# A float32 product is three of float16 parts.
SPLIT_PRODUCTS = 3
# Reductions whose result does not depend on where an element stands.
UNORDERED = (
    Monoid.SUM,
    Monoid.MAXIMUM,
    Monoid.MINIMUM,
    Monoid.LOG_SUM_EXP,
    Monoid.MEAN,
    Monoid.MOMENTS,
)


def plan_elements(group: Group, context: Context) -> tuple[Step, ...]:
    """Each element is finished in the registers it was accumulated in."""
    node = _convolution_of(group)
    if group.having(Reduction):
        raise NotApplicable("what follows the convolution has a reduction")
    domain = domain_of(node)
    stores = _stores(group.results, context, _evaluator(group, context, node, domain))
    why = "a convolution of few channels: its elements are finished in registers and stored once"
    return (_plan(group, context, node, stores, (), (), why),)


def plan_statistics(group: Group, context: Context) -> tuple[Step, ...]:
    """A kernel that leaves the states of reductions over each channel, one that merges them, and,
    for elements that depend on them, one that computes the convolution again."""
    node = _convolution_of(group)
    reductions = group.having(Reduction)
    if not reductions:
        raise NotApplicable("nothing is reduced")
    domain = domain_of(node)
    rows = reductions[0].type.count
    channels = _channels_of_row(node, reductions, rows)
    evaluator = _evaluator(group, context, node, domain)
    after = _after(group, reductions)
    first = tuple(r for r in group.results if r not in after)
    last = tuple(r for r in group.results if r in after and r.type.count != rows)
    tile = pixel_tile(node, context)
    parts = _tiles(node.shape[2], tile.rows) * _tiles(node.shape[3], tile.columns)
    states = _states(reductions, context, evaluator, parts)
    partial = _plan(
        group,
        context,
        node,
        _stores(first, context, evaluator),
        tuple(dict.fromkeys(states.values())),
        _measured(reductions, evaluator),
        "a convolution of few channels: each tile leaves one small state a channel"
        + ("" if first else ", and nothing else is stored"),
    )
    left = tuple(
        n for n in group.nodes if n in after and n.type.count == rows and _is_read(n, group, rows)
    )
    merged = Group(group.nodes, left)
    finished = finish(merged, context, states, Domain.of(rows, parts), parts * channels)
    if not last:
        return (partial, finished)
    buffers = {n: b for n, b in context.buffers.items() if n not in group.nodes or n in left}
    again = replace(_evaluator(group, context, node, domain), buffers=buffers)
    why = "computes the convolution again, now that its statistics are known, which costs less than"
    stores = _stores(last, context, again)
    measured = _measured(reductions, again)
    last_plan = _plan(group, context, node, stores, (), measured, f"{why} storing it")
    return (partial, finished, last_plan)


def _convolution_of(group: Group) -> Node:
    calls = group.having(LibraryCall)
    if len(calls) != 1 or calls[0].operation is not CONVOLUTION:
        raise NotApplicable("the group has not exactly one convolution")
    (node,) = calls
    others = [n for n in group.nodes if n is not node]
    if any(not isinstance(n.operation, (Pointwise, Reduction)) for n in others):
        raise NotApplicable("what follows has something else than elementwise and reductions")
    if node.type.count == ZERO or node.operands[0].type.count == ZERO:
        raise NotApplicable("the convolution has no elements")
    if any(operand in group.nodes for operand in node.operands):
        raise NotApplicable("a convolution reads its operands from memory")
    attributes = node.attributes
    if len(node.operands) != 2:
        raise NotApplicable("a convolution's bias is added apart")
    if node.type.rank != 4 or attributes.flag("transposed") or attributes.integer("groups") != 1:
        raise NotApplicable("only a plain two-dimensional convolution has a kernel of its own")
    if node.dtype not in DTYPES:
        raise NotApplicable(f"a convolution of {node.dtype.value} has no kernel of its own")
    return node


def domain_of(node: Node) -> Domain:
    """A row is a channel of an image, its columns are the pixels."""
    return Domain.of(node.shape[0] * node.shape[1], node.shape[2] * node.shape[3])


def _position(domain: Domain) -> Integer:
    return domain.row * domain.columns + domain.column


def _evaluator(group: Group, context: Context, node: Node, domain: Domain) -> Evaluator:
    """An evaluator whose thread holds the convolution's element at the domain's row and column."""
    at = unflatten(_position(domain), node.shape)
    evaluator = context.evaluator(group, two_pass=False)
    return replace(evaluator, products={node: at})


def _convolution(evaluator: Evaluator) -> Node:
    (node,) = evaluator.products
    return node


def _stores(results: tuple[Node, ...], context: Context, evaluator: Evaluator) -> tuple[Store, ...]:
    node = _convolution(evaluator)
    position = _position(domain_of(node))
    stores = []
    for result in results:
        if result.type.count != node.type.count:
            raise NotApplicable("a result has not one element for each of the convolution's")
        value = evaluator.at(result, unflatten(position, result.shape))
        stores.append(Store(context.buffers[result], position, value))
    return tuple(stores)


def _channels_of_row(node: Node, reductions: tuple[Node, ...], rows: Integer) -> int:
    """How many neighbouring channels of an image each reduction takes together."""
    planes = node.shape[0] * node.shape[1]
    channels = (planes // rows).constant
    size = node.shape[1].constant
    if channels is None or size is None or channels * rows != planes or size % channels:
        raise NotApplicable("a reduction does not take whole channels of one image")
    for reduction in reductions:
        operand = reduction.operands[0]
        dims = reduction.attributes.integers("dims")
        kept = product_of(s for i, s in enumerate(operand.shape) if i not in dims)
        if operand.type.count != node.type.count or kept != rows or dims != _last(operand, dims):
            raise NotApplicable("a reduction does not take whole channels of one image")
        if operand.dtype not in DTYPES:
            raise NotApplicable(f"a reduction is over {operand.dtype.value}")
        if monoid_of(reduction) not in UNORDERED:
            raise NotApplicable(f"{reduction.written_as} depends on the order of elements")
    return channels


def _last(operand: Node, dims: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(range(operand.type.rank - len(dims), operand.type.rank))


def _states(
    reductions: tuple[Node, ...], context: Context, evaluator: Evaluator, parts: Integer
) -> dict[Node, StateStore]:
    """The states of each channel and tile; a mean has that of the moments of the same operand."""
    domain = domain_of(_convolution(evaluator))
    reduced: dict[Node, Reduced] = {}
    for node in reductions:
        operand, monoid = node.operands[0], monoid_of(node)
        value = evaluator.read(operand, unflatten(_position(domain), operand.shape))
        shared = Monoid.MOMENTS if monoid is Monoid.MEAN else monoid
        made = Reduced(node.dtype, node.name or node.operation.name, shared, value)
        reduced[node] = evaluator.expressions.intern(made)
    return state_stores(reduced, context, domain, parts)


def _measured(reductions: tuple[Node, ...], evaluator: Evaluator) -> tuple[Expression, ...]:
    """What the reductions take in, at the element that a thread holds."""
    position = _position(domain_of(_convolution(evaluator)))
    operands = dict.fromkeys(node.operands[0] for node in reductions)
    values = (evaluator.read(o, unflatten(position, o.shape)) for o in operands)
    return tuple(dict.fromkeys(values))


def input_place(axes: ConvolutionAxes) -> tuple[Integer, ...]:
    """Where an element of the input stands."""
    return (axes.image, axes.input_channel, axes.input_row, axes.input_column)


def load_at(buffer: Buffer, coordinates: tuple[Integer, ...]) -> Load:
    """The element of a buffer at coordinates."""
    return Load(buffer.dtype, buffer.name, buffer, coordinates, flatten(coordinates, buffer.shape))


def _tiles(size: Integer, tile: int) -> Integer:
    return (size + (tile - 1)) // tile


def _after(group: Group, reductions: tuple[Node, ...]) -> frozenset[Node]:
    """The group's nodes that depend on a reduction."""
    found = set(reductions)
    for node in group.nodes:
        if any(base in found for base in _bases(node)):
            found.add(node)
    return frozenset(found)


def _is_read(node: Node, group: Group, rows: Integer) -> bool:
    """Whether something needs a row's value in memory: the caller, or elements of the row."""
    users = (n for n in group.nodes if node in _bases(n))
    return node in group.results or any(user.type.count != rows for user in users)


def _bases(node: Node) -> tuple[Node, ...]:
    """The operations whose values a node reads, views looked through."""
    found: list[Node] = []
    stack = list(node.operands)
    while stack:
        operand = stack.pop()
        if isinstance(operand.operation, COMPUTED):
            found.append(operand)
        else:
            stack.extend(operand.operands)
    return tuple(found)


def _vector(pixels: Integer) -> int:
    """How many neighbouring pixels one access takes, so that channels start at multiples of it."""
    vector = LANE_PIXELS
    while pixels.constant is not None and pixels.constant % vector:
        vector //= 2
    return vector


def _plan(
    group: Group,
    context: Context,
    node: Node,
    stores: tuple[Store, ...],
    states: tuple[StateStore, ...],
    measured: tuple[Expression, ...],
    why: str,
) -> ConvolutionPlan:
    data, weight = (context.buffers[operand] for operand in node.operands)
    axes = axes_of(node)
    place = (axes.channel, axes.input_channel, axes.kernel_row, axes.kernel_column)
    loads = load_at(data, input_place(axes)), load_at(weight, place)
    return convolution_plan(group, context, node, loads, stores, states, measured, why)


def convolution_plan(
    group: Group,
    context: Context,
    node: Node,
    loads: tuple[Load, Load],
    stores: tuple[Store, ...],
    states: tuple[StateStore, ...],
    measured: tuple[Expression, ...],
    why: str,
) -> ConvolutionPlan:
    """The plan of a group's kernel that computes the convolution `node`; `loads` are an element of
    its input and one of its weight."""
    hints, axes, domain = context.hints, axes_of(node), domain_of(node)
    data, weight = (load.buffer for load in loads)
    reduced = tuple(Store(s.buffer, ZERO, s.reduction.operand) for s in states)
    count = hints.value(node.type.count)
    work = elementwise_work((*stores, *reduced), count, hints)
    products = 2 * count * axes.input_channels * window_of(node).taps
    cost = Cost(
        work.reads + hints.value(data.bytes) + hints.value(weight.bytes),
        work.writes,
        work.flops,
        tensor_flops=products * (SPLIT_PRODUCTS if node.dtype is DType.FLOAT32 else 1),
    )
    return ConvolutionPlan(
        "",
        group.nodes,
        why,
        cost,
        axes,
        window_of(node),
        *loads,
        domain,
        pixel_tile(node, context),
        _vector(domain.columns),
        stores,
        states,
        measured,
        through_shared=[s.buffer.dtype for s in stores] == [node.dtype],
    )
