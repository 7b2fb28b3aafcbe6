"""Every operation's gradient is PyTorch's: the backward graph in float64 against autograd."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf, nan

import pytest
import torch
from hypothesis import Phase, given, settings
from torch.nn import functional

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Node, Role, TensorType
from fusegen.ops import indexing
from fusegen.ops.composite import dropout, products
from fusegen.ops.composite.norm_parts import RESCALE, STANDARDISE
from fusegen.ops.construct import call
from fusegen.ops.indexing import Range
from fusegen.ops.pointwise import activations, arithmetic
from fusegen.ops.primitive.views import PERMUTE
from fusegen.ops.record import OperationError, Product, Record
from fusegen.ops.registry import FUNCTIONS, PRIMITIVES
from fusegen.passes.differentiation import differentiate
from tests.emulated import apply, graph, value
from tests.gradients import autograd_gradients, graph_gradients
from tests.ops.examples import Example, build_node, examples_for, values_for
from tests.reference import evaluate

# Neither side differentiates floor_divide.
RECORDS = [
    record
    for record in dict.fromkeys((*FUNCTIONS.values(), *PRIMITIVES, *dropout.RECORDS))
    if isinstance(record, Record) and record is not arithmetic.FLOOR_DIVIDE
]
# Both sides compute in float64, each with its own order of a few dozen roundings; PyTorch has the
# sixth of a hardsigmoid in float32.
CLOSE = {"rtol": 1e-9, "atol": 1e-9}
CLOSE_TO_FLOAT = {"rtol": 1e-6, "atol": 1e-6}


def examples_of(record: Record, count: int = 14) -> list[Example]:
    """The first examples, the same in every run, their floating-point dtypes all float64."""
    found: list[Example] = []

    @settings(max_examples=count, database=None, phases=[Phase.generate], derandomize=True)
    @given(examples_for(record))
    def collect(example: Example) -> None:
        found.append(example)

    collect()
    return [_in_double(example) for example in found if not _is_left_out(record, example)]


def _is_left_out(record: Record, example: Example) -> bool:
    """What PyTorch answers in a way of its own: no degree of freedom left, and a zero gradient for
    an operand that a `beta` of 0 drops."""
    if record in (products.ADDMM, products.BADDBMM):
        return example.attributes["beta"] == 0
    return example.attributes.get("correction") == 2.5


def _in_double(example: Example) -> Example:
    operands = tuple(
        replace(o, dtype=DType.FLOAT64) if isinstance(o, TensorType) and o.dtype.is_float else o
        for o in example.operands
    )
    attributes = {
        name: DType.FLOAT64 if isinstance(v, DType) and v.is_float else v
        for name, v in example.attributes.items()
    }
    return Example(operands, attributes, example.sizes)


def check(
    root: Node,
    inputs: Sequence[Node],
    values: dict[Node, torch.Tensor],
    given: float | None = None,
    **sizes: int,
) -> int:
    """Compare all gradients of one result, for a gradient of its own that is drawn or is `given`
    for all elements; how many there are."""
    model = graph(inputs, root)
    (result,) = evaluate(model.roots, values, sizes)
    if not result.dtype.is_floating_point:
        return 0
    generator = torch.Generator().manual_seed(1)
    upstream = [torch.randn(result.shape, generator=generator, dtype=result.dtype)]
    if given is not None:
        upstream[0].fill_(given)
    expected = autograd_gradients(model, values, upstream, sizes)
    differentiated = differentiate(model)
    if differentiated is None:
        assert not expected, "PyTorch has a gradient"
        return 0
    found = graph_gradients(differentiated, values, upstream, sizes)
    assert set(found) == set(expected)
    close = CLOSE_TO_FLOAT if "hardsigmoid" in str(root.operation.name) else CLOSE
    for node, gradient in expected.items():
        torch.testing.assert_close(found[node], gradient, equal_nan=True, **close)
    return len(expected)


@pytest.mark.filterwarnings("ignore:var\\(\\), std\\(\\)", "ignore:std\\(\\)", "ignore:var\\(\\)")
@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize(
    "record", RECORDS, ids=lambda record: f"{type(record).__name__}-{record.name}"
)
def test_gradients_are_those_of_autograd(record: Record) -> None:
    compared = 0
    for seed, example in enumerate(examples_of(record)):
        try:
            node, inputs = build_node(record, example)
        except OperationError:
            continue  # an operation that does not take float64
        if node.type.count.evaluate(example.sizes) == 0 and record.name == "group_norm":
            continue  # PyTorch's own backward fails
        node, inputs = _with_buffers(node, inputs)
        values = values_for(inputs, example.sizes, seed, zeros=False)
        compared += check(node, inputs, values, **example.sizes)
    assert compared or record.gradient is None


def _with_buffers(node: Node, inputs: tuple[Node, ...]) -> tuple[Node, tuple[Node, ...]]:
    """The running statistics of a batch norm as buffers, which have no gradient."""
    if "running_mean" in node.attributes or node.operation.name != "batch_norm":
        return node, inputs
    x, *rest = inputs
    buffers = [
        replace(v, operation=replace(v.operation, role=Role.BUFFER))  # type: ignore[call-arg]
        for v in rest[:2]
    ]
    changed = (x, *buffers, *rest[2:])
    return replace(node, operands=changed), changed


@pytest.mark.parametrize("over", [(0,), (1, 2), (0, 2)])
@pytest.mark.parametrize("record", [STANDARDISE, RESCALE], ids=lambda record: record.name)
def test_parts_of_norms(record: Record, over: tuple[int, ...]) -> None:
    x = value("x", 3, 4, 5, dtype=DType.FLOAT64)
    values = {x: torch.randn(3, 4, 5, dtype=torch.float64, generator=torch.Generator())}
    assert check(call(record, (x,), dims=over, eps=1e-3), [x], values)


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
@pytest.mark.parametrize("scale", [1e13, 1e15, 1e18])
def test_norms_of_great_values_in_float32(name: str, scale: float) -> None:
    """Their squares are in float32's range; the cubes of what divides them are not."""
    generator = torch.Generator().manual_seed(2)
    x = value("x", 4, 8)
    given, upstream = (torch.randn(4, 8, generator=generator) for _ in range(2))
    given = given * scale
    model = graph([x], apply(name, x, normalized_shape=(8,)))
    differentiated = differentiate(model)
    assert differentiated is not None
    found = graph_gradients(differentiated, {x: given}, [upstream], {})[x]
    leaf = given.double().requires_grad_()
    result = getattr(functional, name)(leaf, (8,))
    (expected,) = torch.autograd.grad(result, leaf, upstream.double())
    # Sums of 8 terms, a few roundings each, of rows whose least deviation is above a tenth.
    allowed = 100 * torch.finfo(torch.float32).eps / scale
    assert ((found.double() - expected).abs() <= allowed).all()


# What is permuted to be the right factor, and the order of its dims there.
TURNED = {
    "a matrix": ((5, 7), (1, 0)),
    "a batch": ((3, 5, 7), (0, 2, 1)),
    "batches inside": ((5, 3, 7), (1, 2, 0)),
    "heads": ((3, 5, 2, 7), (0, 2, 3, 1)),
    "three dims of batches": ((3, 5, 2, 4, 7), (3, 0, 2, 4, 1)),
    "a column of each": ((3, 5, 2, 1), (0, 2, 3, 1)),
}


@pytest.mark.parametrize("name", TURNED)
def test_neighbours_of_a_permuted_factors_gradient_are_neighbours_of_a_product(name: str) -> None:
    """The gradient of the right factor has its rows innermost where the factor had been turned."""
    shape, order = TURNED[name]
    k = value("k", *shape, dtype=DType.FLOAT64)
    turned = apply("permute", k, dims=order)
    q = value("q", *turned.shape[:-2], 6, turned.shape[-2], dtype=DType.FLOAT64)
    model = graph([q, k], apply("matmul", q, turned))
    differentiated = differentiate(model)
    assert differentiated is not None
    node = differentiated.backward.outputs[1].node
    while not isinstance(node.operation, Product):
        (operand,) = node.operands
        assert node.shape[-1] == operand.shape[-1]
        if node.operation is PERMUTE:
            assert node.attributes.integers("dims")[-1] == node.type.rank - 1
        node = operand
    generator = torch.Generator().manual_seed(len(shape))
    values = {x: _normal(x.type, generator) for x in (q, k)}
    upstream = [_normal(model.outputs[0].node.type, generator)]
    found = graph_gradients(differentiated, values, upstream)
    for x, gradient in autograd_gradients(model, values, upstream).items():
        torch.testing.assert_close(found[x], gradient, **CLOSE)


def _normal(type: TensorType, generator: torch.Generator) -> torch.Tensor:
    shape = [size.evaluate({}) for size in type.shape]
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def test_floor_divide_is_left_to_pytorch_which_refuses() -> None:
    x = value("x", 3, dtype=DType.FLOAT64)
    assert differentiate(graph([x], call(arithmetic.FLOOR_DIVIDE, (x, 2.0)))) is None
    leaf = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="derivative for aten::floor_divide"):
        (leaf // 2).sum().backward()


def test_softsign_at_infinities() -> None:
    x = value("x", 4, dtype=DType.FLOAT64)
    infinite = torch.tensor([float("inf"), -float("inf"), float("nan"), 1e200])
    assert check(call(activations.SOFTSIGN, (x,)), [x], {x: infinite.double()})


def test_the_slope_of_gelu_has_a_slope() -> None:
    x = value("x", 9, dtype=DType.FLOAT64)
    values = {x: torch.linspace(-3, 5, 9, dtype=torch.float64)}
    assert check(call(activations.GELU_SLOPE, (x,)), [x], values)


@pytest.mark.parametrize("size", range(8))
@pytest.mark.parametrize(("start", "step"), [(0, 2), (1, 2), (1, 3), (1, 5)])
def test_slices_of_few_elements_with_a_step(start: int, step: int, size: int) -> None:
    """Of some of these sizes nothing is left, and of some the last step ends beyond the dim."""
    x = value("x", 2, "h", 3, dtype=DType.FLOAT64)
    values = {x: torch.ones(2, size, 3, dtype=torch.float64)}
    assert check(indexing.index(x, (Range(), Range(start, None, step))), [x], values, h=size)


BESIDE_ZEROS = [
    *([2.0, 3.0, 4.0], [0.0, 3.0, 4.0], [0.0, 0.0, 4.0], [0.0, 0.0, 0.0]),
    *([inf, 3.0, 4.0], [0.0, inf, 4.0], [0.0, inf, nan], [0.0, 0.0, -inf], [nan, 2.0, 0.0]),
]


@pytest.mark.parametrize("dim", [None, 0])
@pytest.mark.parametrize("elements", BESIDE_ZEROS, ids=str)
@pytest.mark.parametrize("upstream", [1.5, inf, nan])
def test_products_of_zeros_and_what_is_not_finite(
    elements: list[float], upstream: float, dim: int | None
) -> None:
    """PyTorch has another gradient for the product of all elements than for one along a dim."""
    x = value("x", 3, dtype=DType.FLOAT64)
    values = {x: torch.tensor(elements, dtype=torch.float64)}
    product = apply("prod", x) if dim is None else apply("prod", x, dim=dim)
    assert check(product, [x], values, upstream)
