"""Runs graphs in PyTorch, in float64, exactly or with the rounding errors that a kernel may make.

Every floating-point value is a float64 tensor whatever its dtype in the graph, and a cast to a
narrower type rounds to it. `exact` takes each operation from PyTorch itself. `perturbed` takes
composite operations apart and adds to every value an error of the size that a careful
implementation makes there (`fusegen.testing.rounding`), with random signs: what comes out differs
from the exact result by as much as a right kernel may (Monte Carlo arithmetic, see Parker, "Monte
Carlo Arithmetic: exploiting randomness in floating-point arithmetic", 1997).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from math import ceil, inf, nan
from types import MappingProxyType

import torch
from torch import Tensor

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Attributes, AttributeValue, Graph, Node, topological
from fusegen.ops.construct import is_number
from fusegen.ops.pointwise.arithmetic import FLOOR_DIVIDE, REMAINDER, TRUNCATE_DIVIDE
from fusegen.ops.pointwise.casting import AS_STORED, CAST, NARROW
from fusegen.ops.record import Composite, Monoid, Reduction
from fusegen.ops.twin import render
from fusegen.runtime.tensors import torch_dtype
from fusegen.testing import twins
from fusegen.testing.losses import Losses
from fusegen.testing.poles import Unbounded, bounded
from fusegen.testing.refusals import Unsuitable
from fusegen.testing.rounding import Precision, overflows, rounding_error
from fusegen.testing.stand_ins import stand_in

Sizes = Mapping[str, int]
Values = Mapping[Node, Tensor]
# Operands of nodes, by their positions.
Detached = Mapping[Node, Collection[int]]
NOTHING: Detached = MappingProxyType({})
INTEGER_DIVISIONS = (FLOOR_DIVIDE, TRUNCATE_DIVIDE, REMAINDER)


@dataclass(frozen=True)
class Perturbation:
    """What `move` makes of a node's exact value, given the node and its operands' values, to go on
    with; `stands_for` is told of each composite and the node it is composed as."""

    move: Callable[[Node, Tensor, Sequence[Tensor]], Tensor]
    stands_for: Callable[[Node, Node], None]


def exact(
    graph: Graph, tensors: Sequence[Tensor], sizes: Sizes, unrounded: Collection[Node] = ()
) -> tuple[Tensor, ...]:
    """The graph's roots in float64, for a tensor of any float type for each placeholder; casts that
    are `unrounded` leave values as they are."""
    return _evaluate(graph.roots, _given(graph, tensors), sizes, None, unrounded)


def outputs(
    graph: Graph, tensors: Sequence[Tensor], sizes: Sizes, detached: Detached = NOTHING
) -> tuple[Tensor, ...]:
    """The graph's outputs alone, as `exact` has them; autograd can differentiate them, but for the
    operands that are `detached`."""
    nodes = tuple(output.node for output in graph.outputs)
    return _evaluate(nodes, _given(graph, tensors), sizes, None, detached=detached)


def as_stored(value: Tensor, node: Node) -> Tensor:
    """A node's value as it stands in memory, in float64 where the node is a float."""
    return _rounded(value, torch_dtype(node.dtype)) if node.dtype.is_float else value


def perturbed(
    graph: Graph,
    tensors: Sequence[Tensor],
    sizes: Sizes,
    precision: Precision,
    seed: int,
    lost_before: Sequence[Tensor] = (),
    unbounded: Unbounded = bounded,
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """The graph's roots with rounding errors whose signs are drawn from `seed`; and which elements
    of each may be anything, as a sum on the way may overflow, or a quotient is `unbounded`, or,
    where `lost_before` is given, as elements of the `tensors` may be.

    What leaves the range of its dtype is infinite, and NaN where a sum may do so on the way.
    """
    generator = torch.Generator(tensors[0].device if tensors else "cpu").manual_seed(seed)

    given = zip(graph.placeholders, lost_before, strict=False)
    losses = Losses(lambda node, masks: _twin(node, masks, sizes), dict(given))

    def perturb(node: Node, value: Tensor, operands: Sequence[Tensor]) -> Tensor:
        moved, lost = move(node, value, operands)
        without_bound = unbounded(node, operands)
        if without_bound is not None:
            if node.dtype.is_float:
                moved = torch.where(without_bound, nan, moved)
            lost = without_bound if lost is None else lost | without_bound
        return losses.through(node, moved, operands, lost)

    def move(node: Node, value: Tensor, operands: Sequence[Tensor]) -> tuple[Tensor, Tensor | None]:
        if not node.dtype.is_float or not value.numel():
            return value, None

        def of(others: Sequence[Tensor]) -> Tensor:
            return _widened(_twin(node, others, sizes))

        size = rounding_error(node, value, operands, precision, of)
        if size is None:
            return value, None
        drawn = torch.rand(value.shape, generator=generator, device=generator.device)
        # Of somewhat different sizes, as equal ones would often cancel.
        size = size * (0.75 + drawn % 0.5)
        moved = value + torch.where(drawn < 0.5, size, -size)
        moved = torch.where(value.isfinite(), moved, value)
        if isinstance(node.operation, Reduction) and node.operation.monoid is Monoid.MOMENTS:
            moved = moved.abs()  # a sum of squares is never negative, and its root never NaN
        if precision.unbounded:
            return moved, None
        moved = torch.where(
            moved.abs() > torch.finfo(torch_dtype(node.dtype)).max, moved * inf, moved
        )
        lost = overflows(node, value, operands, of)
        return (moved, None) if lost is None else (torch.where(lost, nan, moved), lost)

    roots = _evaluate(
        graph.roots, _given(graph, tensors), sizes, Perturbation(perturb, losses.stands_for)
    )
    pairs = zip(graph.roots, roots, strict=True)
    return roots, tuple(losses.of(node, value) for node, value in pairs)


def _given(graph: Graph, tensors: Sequence[Tensor]) -> Values:
    nodes = graph.placeholders
    return {node: _widened(tensor) for node, tensor in zip(nodes, tensors, strict=True)}


def _evaluate(
    roots: Sequence[Node],
    values: Values,
    sizes: Sizes,
    perturb: Perturbation | None,
    unrounded: Collection[Node] = (),
    detached: Detached = NOTHING,
) -> tuple[Tensor, ...]:
    found = dict(values)
    before = set(topological(tuple(values)))  # what is known needs nothing of what it is made from
    with _where(values):
        for node in topological(tuple(roots)):
            if node not in before and not is_number(node):
                operands = [_tensor(operand, found, sizes) for operand in node.operands]
                for position in detached.get(node, ()):
                    operands[position] = operands[position].detach()
                found[node] = _value(node, operands, sizes, perturb, node in unrounded)
        return tuple(_tensor(root, found, sizes) for root in roots)


def _where(values: Values) -> AbstractContextManager[object]:
    """Within the block, what is made of numbers alone is made where the tensors are."""
    devices = {value.device for value in values.values()}
    on_gpu = [device for device in devices if device.type != "cpu"]
    return on_gpu[0] if on_gpu else nullcontext()


def _value(
    node: Node,
    operands: Sequence[Tensor],
    sizes: Sizes,
    perturb: Perturbation | None,
    unrounded: bool,
) -> Tensor:
    operation = node.operation
    if perturb and isinstance(operation, Composite) and node.type.count.evaluate(sizes):
        body = operation.decompose(node.operands, node.attributes)
        pairs = zip(node.operands, operands, strict=True)
        known = {operand: value for operand, value in pairs if not is_number(operand)}
        (value,) = _evaluate((body,), known, sizes, perturb)
        perturb.stands_for(node, body)
        return value
    if node.operation is NARROW:  # not rounded in a register
        value = operands[0]
    elif node.operation in (CAST, AS_STORED) and node.attributes.dtype("dtype").is_float:
        source, target = node.operands[0].dtype, node.attributes.dtype("dtype")
        exactly = unrounded or _widens(source, target)
        value = operands[0] if exactly else _rounded(operands[0], torch_dtype(target))
    else:
        value = _widened(_twin(node, operands, sizes, in_kernel=perturb is not None))
    return value if perturb is None else perturb.move(node, value, operands)


def _widens(source: DType, target: DType) -> bool:
    """Whether a cast rounds nothing; what is not rounded yet stays so."""
    wider = torch.promote_types(torch_dtype(source), torch_dtype(target))
    return source.is_float and source is not target and wider is torch_dtype(target)


def _rounded(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """A tensor with the values of another dtype, as float64; autograd sees no rounding."""
    if not tensor.is_floating_point():
        return tensor.to(dtype).double()
    rounded: Tensor = _Rounding.apply(tensor, dtype)  # type: ignore[no-untyped-call]
    return rounded


class _Rounding(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, tensor: Tensor, dtype: torch.dtype) -> Tensor:
        return tensor.to(dtype).double()

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


def _twin(
    node: Node, operands: Sequence[Tensor], sizes: Sizes, *, in_kernel: bool = False
) -> Tensor:
    """PyTorch's own result, in float64 where the node is a float; numbers are as a kernel and as
    eager mode have them, or exact."""
    replaced = stand_in(node, operands, sizes)
    if replaced is not None:
        return replaced
    if node.operation in INTEGER_DIVISIONS and not (node.dtype.is_float or operands[1].all()):
        raise Unsuitable("integers are divided by zero")  # which a GPU does, with any result
    attributes = Attributes(tuple((name, _double(v)) for name, v in node.attributes.items()))
    scope: dict[str, object] = {**twins.names(), **sizes}
    texts = []
    for position, operand in enumerate(node.operands):
        text = f"_{position}"
        if is_number(operand):
            text = _literal(operand) if in_kernel else render(operand, ())
        else:
            scope[text] = operands[position]
        texts.append(text)
    value = eval(render(replace(node, attributes=attributes), texts), scope)
    assert isinstance(value, Tensor)
    return value


def _literal(number: Node) -> str:
    """A number in the type that arithmetic with it is done in: 1e-3 is none of float32's."""
    value = number.attributes.get("value")
    if isinstance(value, float):
        value = torch.tensor(value, dtype=torch_dtype(number.dtype.compute)).double().item()
        return render(replace(number, attributes=Attributes.of(value=value)), ())
    return render(number, ())


def _double(value: AttributeValue) -> AttributeValue:
    return DType.FLOAT64 if isinstance(value, DType) and value.is_float else value


def _tensor(node: Node, found: Mapping[Node, Tensor], sizes: Sizes) -> Tensor:
    if node in found:
        return found[node]
    value = eval(render(node, ()), {"ceil": ceil, "float": float, **sizes})
    return torch.tensor(value, dtype=torch.float64 if node.dtype.is_float else None)


def _widened(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor
