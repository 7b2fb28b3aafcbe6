"""Example arguments for every operation, for all tests that go through the records.

`examples_for(record)` is a hypothesis strategy of `Example`s; `build_node` makes the node of one,
and `values_for` draws seeded tensors for its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from hypothesis import strategies as st

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import (
    Attributes,
    AttributeValue,
    Node,
    Placeholder,
    Role,
    TensorType,
)
from fusegen.ir.integers import Integer
from fusegen.ops.construct import call
from fusegen.ops.operands import TENSOR_KINDS
from fusegen.ops.record import (
    OperationError,
    ParameterKind,
    Pointwise,
    Record,
    Reduction,
)

Number = bool | int | float
FLOATS = (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64)


@dataclass(frozen=True)
class Example:
    """Operands in the order of the tensor parameters (None for a missing one, a number for a
    Python scalar), attributes, and the values of the symbolic sizes in the operands' shapes."""

    operands: tuple[TensorType | Number | None, ...]
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)


def placeholder(type: TensorType, name: str = "x") -> Node:
    """An input of a graph."""
    return Node(Placeholder("placeholder", Role.INPUT, name), (), Attributes(), type, name)


def build_node(record: Record, example: Example) -> tuple[Node, tuple[Node, ...]]:
    """The node of an example, and its placeholders in order."""
    operands = [
        placeholder(operand, f"x{position}") if isinstance(operand, TensorType) else operand
        for position, operand in enumerate(example.operands)
    ]
    inputs = tuple(operand for operand in operands if isinstance(operand, Node))
    return call(record, operands, **example.attributes), inputs


def torch_dtype(dtype: DType) -> torch.dtype:
    """PyTorch's dtype of the same name."""
    found = getattr(torch, dtype.value)
    assert isinstance(found, torch.dtype)
    return found


# NaN, infinities, zeros of both signs, subnormals, and the edges of piecewise functions.
SPECIAL = (
    *(float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-40, -9.18e-41),
    *(1.0, -1.0, 0.5, -0.5, 2.5, 3.0, -3.0, 6.0, 20.0, 88.0, -100.0),
)


# Operations that divide integers.
DIVISIONS = ("floor_divide", "truncate_divide", "remainder", "div")


def values_for(
    inputs: Sequence[Node],
    sizes: Mapping[str, int],
    seed: int,
    *,
    special: Sequence[Node] = (),
    zeros: bool = True,
) -> dict[Node, torch.Tensor]:
    """Tensors for placeholders: normal numbers, small integers, or coin tosses by dtype; every
    third element of a floating-point one among `special` is from `SPECIAL`; without `zeros`, no
    integer is 0, since a CPU cannot divide by it."""
    generator = torch.Generator().manual_seed(seed)
    values = {}
    for node in inputs:
        shape = [size.evaluate(sizes) for size in node.shape]
        dtype = torch_dtype(node.dtype)
        if node.dtype.is_float:
            x = torch.randn(shape, generator=generator, dtype=torch.float64)
            if node in special:
                chosen = torch.randint(0, len(SPECIAL), shape, generator=generator)
                here = torch.randint(0, 3, shape, generator=generator) == 0
                x = torch.where(here, torch.tensor(SPECIAL, dtype=torch.float64)[chosen], x)
        elif node.dtype is DType.BOOL:
            x = torch.randint(0, 2, shape, generator=generator)
        else:
            x = torch.randint(-5, 6, shape, generator=generator)
            x = x if zeros else torch.where(x == 0, 7, x)
        values[node] = x.to(dtype)
    return values


def shapes(
    min_rank: int = 0, max_rank: int = 4, min_size: int = 0, max_size: int = 5
) -> st.SearchStrategy[tuple[int, ...]]:
    """Small shapes; sizes of 0 and 1 are common."""
    size = st.integers(min_size, max_size)
    return st.lists(size, min_size=min_rank, max_size=max_rank).map(tuple)


@st.composite
def typed(
    draw: st.DrawFn, shape: Sequence[int], dtype: DType
) -> tuple[TensorType, Mapping[str, int]]:
    """A tensor type, some sizes of which (1 or more) are symbolic: equal ones by the same name."""
    symbolic = draw(st.sets(st.sampled_from(sorted({s for s in shape if s > 1}) or [0])))
    names = {size: f"n{size}" for size in symbolic if size > 1}
    sizes = tuple(
        Integer.symbol(names[size]) if size in names else Integer.of(size) for size in shape
    )
    return TensorType(sizes, dtype), {name: size for size, name in names.items()}


def fixed(shape: Sequence[int], dtype: DType) -> TensorType:
    """A tensor type of constant sizes."""
    return TensorType(tuple(Integer.of(size) for size in shape), dtype)


def accepted_dtypes(record: Record, *, operand: int = 0) -> tuple[DType, ...]:
    """The dtypes that all of a pointwise operation's or reduction's operands may have."""
    count = sum(p.kind in TENSOR_KINDS for p in record.parameters)
    found = []
    for dtype in DType:
        operands: list[TensorType | None] = [fixed((2,), dtype)] * count
        if record.name == "where":
            operands[0] = fixed((2,), DType.BOOL)
        attributes = {
            p.name: _simplest(p.kind) for p in record.parameters if p.kind not in TENSOR_KINDS
        }
        try:
            build_node(record, Example(tuple(operands), attributes))
        except OperationError:
            continue
        found.append(dtype)
    return tuple(found)


def _simplest(kind: ParameterKind) -> AttributeValue:
    return {
        ParameterKind.FLOAT: 1.0,
        ParameterKind.SCALAR: 1,
        ParameterKind.TEXT: "none",
        ParameterKind.DTYPE: DType.FLOAT32,
        ParameterKind.DIMS: (0,),
        ParameterKind.FLAG: False,
        ParameterKind.INTEGER: 1,
    }[kind]


@st.composite
def broadcastable(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to `shape`: leading dims left out, others 1."""
    kept = shape[draw(st.integers(0, len(shape))) :]
    return tuple(draw(st.sampled_from([size, 1])) for size in kept)


ATTRIBUTES: Mapping[str, st.SearchStrategy[AttributeValue]] = {
    "negative_slope": st.sampled_from([0.01, 0.2, 0.0, -0.5]),
    "alpha": st.sampled_from([1.0, 0.5, 2.0]),
    "beta": st.sampled_from([1.0, 0.5, 5.0]),
    "threshold": st.sampled_from([20.0, 2.0, 0.0]),
    "value": st.sampled_from([0.0, -1.5]),
    "lambd": st.sampled_from([0.5, 0.0, 1.0]),
    "min_val": st.sampled_from([-1.0, -2.5]),
    "max_val": st.sampled_from([1.0, 3.0]),
    "approximate": st.sampled_from(["none", "tanh"]),
    "dtype": st.sampled_from(list(DType)),
}


@st.composite
def pointwise_examples(draw: st.DrawFn, record: Record) -> Example:
    """Operands that broadcast, in a dtype the operation takes; one of several may be a number."""
    dtypes = accepted_dtypes(record)
    shape = draw(shapes())
    whole, sizes = draw(typed(shape, draw(st.sampled_from(dtypes))))
    names = {value: name for name, value in sizes.items()}
    tensors = [p for p in record.parameters if p.kind in TENSOR_KINDS]
    operands: list[TensorType | Number] = []
    for position, parameter in enumerate(tensors):
        if position and draw(st.integers(0, 3)) == 0:
            operands.append(draw(_numbers(whole.dtype)))
            continue
        own = draw(broadcastable(shape)) if position else shape
        dtype = DType.BOOL if parameter.name == "condition" else whole.dtype
        if position and draw(st.integers(0, 3)) == 0:
            dtype = draw(st.sampled_from(dtypes))
        operands.append(
            TensorType(
                tuple(Integer.symbol(names[s]) if s in names else Integer.of(s) for s in own),
                dtype,
            )
        )
    attributes = {p.name: draw(ATTRIBUTES[p.name]) for p in record.parameters if p not in tensors}
    return Example(tuple(operands), attributes, sizes)


def _numbers(dtype: DType) -> st.SearchStrategy[Number]:
    if dtype is DType.BOOL:
        return st.booleans()
    if not dtype.is_float:
        return st.integers(1, 3)
    return st.one_of(st.integers(1, 3), st.sampled_from([0.5, -1.25, 2.0]))


def some_dims(rank: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Distinct dims of a tensor of the rank, in order; at least one if there is any."""
    if not rank:
        return st.just(())
    dims = st.sets(st.integers(0, rank - 1), min_size=1)
    return dims.map(lambda found: tuple(sorted(found)))


@st.composite
def reduction_examples(draw: st.DrawFn, record: Reduction) -> Example:
    """One tensor with elements, and dims in their normal form."""
    shape = draw(shapes(min_rank=1, min_size=1))
    operand, sizes = draw(typed(shape, draw(st.sampled_from(accepted_dtypes(record)))))
    dims = draw(some_dims(len(shape)))
    dims = dims[:1] if record.name in ("prod", "prod_of_all", "argmax", "argmin") else dims
    return Example((operand,), {"dims": dims, "keepdim": draw(st.booleans())}, sizes)


def examples_for(record: Record) -> st.SearchStrategy[Example]:
    """Arguments that the operation takes, small and often degenerate."""
    from tests.ops.structured import STRUCTURED

    if record in STRUCTURED:
        return STRUCTURED[record]()
    if isinstance(record, Pointwise):
        return pointwise_examples(record)
    assert isinstance(record, Reduction), f"no examples for {record.name}"
    return reduction_examples(record)


Examples = Callable[[], st.SearchStrategy[Example]]
