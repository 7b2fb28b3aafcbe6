"""Convolutions of few channels, and what is done with their elements.

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
from fusegen.ops.record import Monoid, Pointwise, Reduction
from fusegen.passes.results import COMPUTED
from fusegen.plan.accounting import elementwise_work
from fusegen.plan.buffers import Buffer
from fusegen.plan.coordinates import flatten, unflatten
from fusegen.plan.cost import Cost
from fusegen.plan.evaluate import Domain, Evaluator
from fusegen.plan.expressions import Expression, Load, Reduced
from fusegen.plan.group import Context, Group, NotApplicable
from fusegen.plan.kernels.convolution import ConvolutionPlan
from fusegen.plan.kernels.module import Step
from fusegen.plan.kernels.stores import StateStore, Store
from fusegen.plan.pixel_tiles import LANE_PIXELS, pieces_of, pixel_tile
from fusegen.plan.plain_convolution import DTYPES, PlainConvolution, convolution_of
from fusegen.plan.strategies.rows import finish, monoid_of, state_stores

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
    convolution = _convolution_of(group)
    if group.having(Reduction):
        raise NotApplicable("what follows the convolution has a reduction")
    stores = _stores(group.results, context, convolution, _evaluator(group, context, convolution))
    why = "a convolution of few channels: its elements are finished in registers and stored once"
    if convolution.turned:
        why = f"with the kernel turned by half a turn, {why}"
    return (_plan(group, context, convolution, stores, (), (), why),)


def plan_statistics(group: Group, context: Context) -> tuple[Step, ...]:
    """A kernel that leaves the states of reductions over each channel, one that merges them, and,
    for elements that depend on them, one that computes the convolution again."""
    convolution = _convolution_of(group)
    reductions = group.having(Reduction)
    if not reductions:
        raise NotApplicable("nothing is reduced")
    rows = reductions[0].type.count
    planes = _planes_of_row(convolution, reductions, rows)
    evaluator = _evaluator(group, context, convolution)
    after = _after(group, reductions)
    first = tuple(r for r in group.results if r not in after)
    last = tuple(r for r in group.results if r in after and r.type.count != rows)
    tile = pixel_tile(convolution, context.device)
    height, width = convolution.result.shape[-2:]
    parts = _tiles(height, tile.rows) * _tiles(width, tile.columns)
    states = _states(reductions, context, convolution.domain, evaluator, parts)
    partial = _plan(
        group,
        context,
        convolution,
        _stores(first, context, convolution, evaluator),
        tuple(dict.fromkeys(states.values())),
        _measured(reductions, convolution.domain, evaluator),
        "a convolution of few channels: each tile leaves one small state a channel"
        + ("" if first else ", and nothing else is stored"),
    )
    left = tuple(
        n for n in group.nodes if n in after and n.type.count == rows and _is_read(n, group, rows)
    )
    merged = Group(group.nodes, left)
    finished = finish(merged, context, states, Domain.of(rows, parts), parts * planes)
    if not last:
        return (partial, finished)
    buffers = {n: b for n, b in context.buffers.items() if n not in group.nodes or n in left}
    again = replace(_evaluator(group, context, convolution), buffers=buffers)
    why = "computes the convolution again, now that its statistics are known, which costs less than"
    stores = _stores(last, context, convolution, again)
    measured = _measured(reductions, convolution.domain, again)
    last_plan = _plan(group, context, convolution, stores, (), measured, f"{why} storing it")
    return (partial, finished, last_plan)


def _convolution_of(group: Group) -> PlainConvolution:
    convolution = convolution_of(group.nodes)
    others = [n for n in group.nodes if n is not convolution.result]
    if any(not isinstance(n.operation, (Pointwise, Reduction)) for n in others):
        raise NotApplicable("what follows has something else than elementwise and reductions")
    if ZERO in (convolution.result.type.count, convolution.data.type.count):
        raise NotApplicable("the convolution has no elements")
    if convolution.data in group.nodes or convolution.weight in group.nodes:
        raise NotApplicable("a convolution reads its operands from memory")
    return convolution


def _position(domain: Domain) -> Integer:
    return domain.row * domain.columns + domain.column


def _evaluator(group: Group, context: Context, convolution: PlainConvolution) -> Evaluator:
    """An evaluator whose thread holds the convolution's element at the domain's row and column."""
    at = unflatten(_position(convolution.domain), convolution.result.shape)
    evaluator = context.evaluator(group, two_pass=False)
    return replace(evaluator, products={convolution.result: at})


def _stores(
    results: tuple[Node, ...],
    context: Context,
    convolution: PlainConvolution,
    evaluator: Evaluator,
) -> tuple[Store, ...]:
    position = _position(convolution.domain)
    stores = []
    for result in results:
        if result.type.count != convolution.result.type.count:
            raise NotApplicable("a result has not one element for each of the convolution's")
        value = evaluator.at(result, unflatten(position, result.shape))
        stores.append(Store(context.buffers[result], position, value))
    return tuple(stores)


def _planes_of_row(
    convolution: PlainConvolution, reductions: tuple[Node, ...], rows: Integer
) -> int:
    """How many neighbouring planes each reduction takes together, of whole channels of one image:
    an image has one plane a channel."""
    node, all_planes = convolution.result, convolution.domain.rows
    planes = (all_planes // rows).constant
    of_image = product_of(node.shape[1:-2]).constant
    if planes is None or of_image is None or planes * rows != all_planes or of_image % planes:
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
    return planes


def _last(operand: Node, dims: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(range(operand.type.rank - len(dims), operand.type.rank))


def _states(
    reductions: tuple[Node, ...],
    context: Context,
    domain: Domain,
    evaluator: Evaluator,
    parts: Integer,
) -> dict[Node, StateStore]:
    """The states of each plane and tile; a mean has that of the moments of the same operand."""
    reduced: dict[Node, Reduced] = {}
    for node in reductions:
        operand, monoid = node.operands[0], monoid_of(node)
        value = evaluator.read(operand, unflatten(_position(domain), operand.shape))
        shared = Monoid.MOMENTS if monoid is Monoid.MEAN else monoid
        made = Reduced(node.dtype, node.name or node.operation.name, shared, value)
        reduced[node] = evaluator.expressions.intern(made)
    return state_stores(reduced, context, domain, parts)


def _measured(
    reductions: tuple[Node, ...], domain: Domain, evaluator: Evaluator
) -> tuple[Expression, ...]:
    """What the reductions take in, at the element that a thread holds."""
    position = _position(domain)
    operands = dict.fromkeys(node.operands[0] for node in reductions)
    values = (evaluator.read(o, unflatten(position, o.shape)) for o in operands)
    return tuple(dict.fromkeys(values))


def _load_at(buffer: Buffer, coordinates: tuple[Integer, ...]) -> Load:
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
    convolution: PlainConvolution,
    stores: tuple[Store, ...],
    states: tuple[StateStore, ...],
    measured: tuple[Expression, ...],
    why: str,
) -> ConvolutionPlan:
    hints, axes, window = context.hints, convolution.axes, convolution.window
    node, domain = convolution.result, convolution.domain
    data, weight = (context.buffers[n] for n in (convolution.data, convolution.weight))
    reduced = tuple(Store(s.buffer, ZERO, s.reduction.operand) for s in states)
    count = hints.value(node.type.count)
    work = elementwise_work((*stores, *reduced), count, hints)
    products = 2 * count * axes.input_channels * window.taps
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
        window,
        pieces_of(window, axes.input_channels),
        _load_at(data, (axes.image, axes.input_channel, *axes.input_place)),
        _load_at(weight, convolution.weight_place(axes)),
        domain,
        pixel_tile(convolution, context.device),
        _vector(domain.columns),
        stores,
        states,
        measured,
        through_shared=[s.buffer.dtype for s in stores] == [node.dtype],
        turned=convolution.turned,
    )
