"""Which attention's scores are computed again in the backward, and that the gradients stay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node, Role, topological
from fusegen.ops.record import Product
from fusegen.passes.differentiation import Differentiated, Origin, differentiate
from fusegen.passes.differentiation.attention import StoresNoScores
from fusegen.plan.attention_limits import stores_no_scores
from tests.emulated import apply, graph, value
from tests.gradients import autograd_gradients, backward_arguments
from tests.kernels.families import add, mul, softmax
from tests.kernels.test_attention import attention, half
from tests.kernels.test_operand_layouts import matmul, transposed
from tests.reference import evaluate

# Of each row the greatest score and the reciprocal of the weights' total, and of results what they
# lose when they are stored.
SAVED = [("softmax", 2), ("softmax_2", 2), ("softmax_3", 3)]
SIZES = {"b": 2, "m": 5, "n": 7}


def operands(width: int = 64, dtype: DType = DType.BFLOAT16) -> tuple[Node, Node, Node]:
    q = value("q", "b", "m", width, dtype=dtype)
    return q, *(value(name, "b", "n", width, dtype=dtype) for name in ("k", "v"))


def trained(model: Graph, fits: StoresNoScores = stores_no_scores) -> Differentiated:
    found = differentiate(model, fits)
    assert found is not None
    return found


def never(scored: Node, summed: Node) -> bool:
    return False


def always(scored: Node, summed: Node) -> bool:
    return True


def products(found: Differentiated) -> int:
    """The matrix products of the backward."""
    order = topological(found.backward.roots)
    return sum(isinstance(node.operation, Product) for node in order)


def saved(found: Differentiated) -> list[tuple[str, int]]:
    """Names and ranks but for sizes of 1."""
    return [
        (one.name, sum(str(size) != "1" for size in one.node.shape)) for one in found.forward.saved
    ]


def test_rows_statistics_are_saved_instead_of_weights() -> None:
    q, k, v = operands()
    model = graph([q, k, v], attention(q, k, v, lambda x: mul(x, 0.125)))
    found = trained(model)
    assert saved(found) == SAVED
    assert Origin.OUTPUT in [source.origin for source in found.sources]  # for the sums of rows
    assert products(found) == 5  # the scores again, and the two gradients of each product
    before = trained(model, never)
    assert saved(before) == [("softmax", 3)] and products(before) == 4


def _biased() -> Graph:
    q, k, v = operands()
    bias = half("bias", "m", "n")
    return graph([q, k, v, bias], attention(q, k, v, lambda x: add(x, bias)))


def _learned_slope() -> Graph:
    q, k, v = operands()
    slope = value("slope", "b", 1, 1, dtype=DType.BFLOAT16, role=Role.PARAMETER)
    model = graph([q, k, v], attention(q, k, v, lambda x: mul(x, slope)))
    return replace(model, tensors=(slope,))


def _returned_weights() -> Graph:
    q, k, v = operands()
    weights = softmax(matmul(q, transposed(k)))
    return graph([q, k, v], matmul(weights, v), weights)


def _returned_scores() -> Graph:
    q, k, v = operands()
    scores = matmul(q, transposed(k))
    return graph([q, k, v], matmul(softmax(scores), v), scores)


def _other_use() -> Graph:
    q, k, v = operands()
    weights = softmax(matmul(q, transposed(k)))
    return graph([q, k, v], matmul(weights, v), apply("sum", weights, dim=-1))


def _over_queries() -> Graph:
    q, k, v = operands()
    weights = softmax(matmul(q, transposed(k)), dim=1)
    return graph([q, k, v], matmul(weights, v))


def _wide() -> Graph:
    q, k, v = operands(136)
    return graph([q, k, v], attention(q, k, v))


def _float32() -> Graph:
    q, k, v = operands(dtype=DType.FLOAT32)
    return graph([q, k, v], attention(q, k, v))


@pytest.mark.parametrize(
    "model",
    [
        _biased,
        _learned_slope,
        _returned_weights,
        _returned_scores,
        _other_use,
        _over_queries,
        _wide,
        _float32,
    ],
)
def test_what_stays_stored(model: Callable[[], Graph]) -> None:
    """What something else needs, what has a gradient for others, and what is no single kernel."""
    one = model()
    assert saved(trained(one)) == saved(trained(one, never))


def test_a_buffer_has_no_gradient() -> None:
    """So scores may be made of one."""
    q, k, v = operands()
    bias = value("bias", "m", "n", dtype=DType.BFLOAT16, role=Role.BUFFER)
    model = graph([q, k, v], attention(q, k, v, lambda x: add(x, bias)))
    assert saved(trained(replace(model, tensors=(bias,)))) == SAVED


def test_each_layer_by_itself() -> None:
    x = half("x", "b", "m", 64)
    hidden = attention(x, x, x)
    found = trained(graph([x], attention(hidden, hidden, hidden)))
    names = [name for name, rank in saved(found) if rank == 2]
    assert len(names) == 4  # the greatest score and the total's reciprocal of both
    assert products(found) == 10


def wide(name: str, *shape: int | str) -> Node:
    return value(name, *shape, dtype=DType.FLOAT64)


def _plain() -> Graph:
    q, k, v = operands(16, DType.FLOAT64)
    return graph([q, k, v], attention(q, k, v, lambda x: apply("tanh", mul(x, 0.25))))


def _heads_together() -> Graph:
    q, k, v = (wide(name, "b", 3, size, 8) for name, size in (("q", "m"), ("k", "n"), ("v", "n")))
    turned = apply("permute", attention(q, k, v), dims=(0, 2, 1, 3))
    b, m, *_ = turned.shape
    return graph([q, k, v], apply("reshape", turned, shape=(b, m, 24)))


def _two_layers() -> Graph:
    x = wide("x", "b", "m", 16)
    hidden = attention(x, x, x)
    return graph([x], attention(hidden, mul(hidden, 0.5), x))


def _keys_across() -> Graph:
    """Keys and values whose lines are columns."""
    q, k, v = wide("q", "b", "m", 8), wide("k", "b", 8, "n"), wide("v", "b", 8, "n")
    return graph([q, k, v], matmul(softmax(matmul(q, k)), transposed(v)))


@pytest.mark.parametrize("model", [_plain, _heads_together, _two_layers, _keys_across])
def test_the_gradients_are_those_of_the_model(model: Callable[[], Graph]) -> None:
    """In float64 they are autograd's but for rounding: of a few hundred operations, each of which
    errs by 2 ** -53 of terms of which none is greater than 2 ** 7."""
    one = model()
    found = trained(one, always)
    assert products(found) > products(trained(one, never))
    generator = torch.Generator().manual_seed(5)

    def drawn(node: Node) -> torch.Tensor:
        shape = [size.evaluate(SIZES) for size in node.shape]
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    tensors = [drawn(node) for node in one.inputs]
    upstream = [drawn(output.node) for output in one.outputs]
    values = dict(zip(one.inputs, tensors, strict=True))
    results = evaluate(found.forward.roots, values, SIZES)
    taken = backward_arguments(found, tensors, results, upstream)
    given = dict(zip(found.backward.inputs, taken, strict=True))
    gradients = evaluate(found.backward.roots, given, SIZES)
    exact = autograd_gradients(one, values, upstream, SIZES)
    for target, gradient in zip(found.targets, gradients, strict=True):
        error = (gradient - exact[one.inputs[target]]).abs().max()
        assert error <= 300 * 2**7 * 2**-53


def test_a_result_that_is_no_finite_number_loses_nothing() -> None:
    """When it is stored: what an infinity is more than itself would be no number."""
    model = _plain()
    found = trained(model, always)
    generator = torch.Generator().manual_seed(6)
    shapes = [[size.evaluate(SIZES) for size in node.shape] for node in model.inputs]
    q, k, v = (torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes)
    v[0, 0, 0] = float("inf")
    values = dict(zip(model.inputs, (q, k, v), strict=True))
    result, *statistics = evaluate(found.forward.roots, values, SIZES)
    (rest,) = (one for one in statistics if one.shape == result.shape)
    assert bool(result[0, :, 0].isinf().all()) and bool((rest == 0).all())
