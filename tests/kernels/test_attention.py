"""Attention whose scores are never in memory: by warpgroups, by warps, and element by element."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import pytest
import torch

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node
from fusegen.plan.kernels.attention import AttentionPlan
from fusegen.plan.kernels.module import ModulePlan
from fusegen.runtime.loader import emulator_runtime
from tests.emulated import Kernels, apply, graph, link, planned, value
from tests.kernels.families import add, gelu, mul, softmax
from tests.kernels.test_operand_layouts import heads, matmul, normal, padded, sliced, transposed
from tests.reference import evaluate

SEEDS = (0, 1)
BATCH, ROWS, KEYS = 2, 152, 200
# How far a result may be from float64's for each unit in the last place of its dtype: a weight of
# 16 bits, of which all together make 1, and the result itself are rounded by half a unit each; what
# operations in float32 err beside that is far below the other half.
UNITS = 1.5
MINUS_INFINITY = -float("inf")


def half(name: str, *shape: int | str) -> Node:
    return value(name, *shape, dtype=DType.BFLOAT16)


def attention(q: Node, k: Node, v: Node, score: Callable[[Node], Node] = lambda x: x) -> Node:
    return matmul(softmax(score(matmul(q, transposed(k)))), v)


def together(x: Node) -> Node:
    """(batch, head, row, width) as (batch, row, head * width)."""
    batch, count, rows, width = x.shape
    turned = apply("permute", x, dims=(0, 2, 1, 3))
    return apply("reshape", turned, shape=(batch, rows, count * width))


def of_tensors(width: int, columns: int | None = None) -> tuple[Node, Node, Node]:
    q, k = half("q", "b", "m", width), half("k", "b", "n", width)
    return q, k, half("v", "b", "n", width if columns is None else columns)


def _plain(width: int, columns: int | None = None) -> Graph:
    inputs = of_tensors(width, columns)
    return graph(inputs, attention(*inputs))


def _masked() -> Graph:
    q, k, v = (half(name, "b", size, 96) for name, size in (("q", "m"), ("k", "n"), ("v", "n")))
    mask = value("mask", "m", "n", dtype=DType.BOOL)
    apart = [heads(x, 3) for x in (q, k, v)]

    def score(x: Node) -> Node:
        return apply("where", mask, mul(x, 0.3), MINUS_INFINITY)

    return graph([q, k, v, mask], together(attention(*apart, score)))


def _biased() -> Graph:
    q, k, v = of_tensors(48)
    bias, slope = half("bias", "m", "n"), half("slope", "b", 1, 1)

    def score(x: Node) -> Node:
        return apply("tanh", add(mul(x, slope), bias))

    return graph([q, k, v, bias, slope], attention(q, k, v, score))


def _finished() -> Graph:
    q, k, v = of_tensors(32)
    result = attention(q, k, v)
    return graph([q, k, v], add(gelu(result), q), apply("permute", result, dims=(1, 0, 2)))


def _turned() -> Graph:
    """Keys that are neighbours where queries are rows, and values the other way round."""
    q, k, v = half("q", "b", 40, "m"), half("k", "b", 40, "n"), half("v", "b", 24, "n")
    return graph([q, k, v], attention(transposed(q), transposed(k), transposed(v)))


def _shared() -> Graph:
    """One head of keys and values for several of queries."""
    q = half("q", "b", 3, "m", 16)
    k, v = half("k", "b", 1, "n", 16), half("v", "b", 1, "n", 16)
    return graph([q, k, v], attention(q, k, v))


def _biased_by_columns() -> Graph:
    """A bias whose neighbours are not those of the scores."""
    q, k, v = of_tensors(16)
    bias = half("bias", "n", "m")
    turned = apply("transpose", bias, dim0=0, dim1=1)
    return graph([q, k, v, bias], attention(q, k, v, lambda x: add(x, turned)))


def _joined_bias() -> Graph:
    q, k, v = half("q", "b", "m", 16), half("k", "b", 67, 16), half("v", "b", 67, 16)
    left, right = half("left", "m", 30), half("right", "m", 37)
    bias = apply("cat", left, right, dim=1)
    inputs = [q, k, v, left, right]
    return graph(inputs, attention(q, k, v, lambda x: add(x, bias)))


def _alone() -> Graph:
    """Matrices without batches, and a mask of the keys."""
    q, k, v = half("q", "m", 40), half("k", "n", 40), half("v", "n", 40)
    mask = value("mask", "n", dtype=DType.BOOL)
    score = functools.partial(apply, "where", mask)
    return graph([q, k, v, mask], attention(q, k, v, lambda x: score(x, MINUS_INFINITY)))


def _scaled() -> Graph:
    q, k, v = of_tensors(64)
    return graph([q, k, v], attention(q, k, v, lambda x: mul(x, 0.5)))


GRAPHS: dict[str, Callable[[], Graph]] = {
    "plain": lambda: _plain(64),
    "scaled": _scaled,
    "wide": lambda: _plain(128),
    "narrow": lambda: _plain(8, 24),
    "wide values": lambda: _plain(24, 104),
    "masked heads": _masked,
    "bias, slope and an activation": _biased,
    "an epilogue and two results": _finished,
    "turned operands": _turned,
    "shared keys": _shared,
    "no batches": _alone,
    "a bias by columns": _biased_by_columns,
    "a bias in parts": _joined_bias,
}


@functools.cache
def kernels_of(name: str) -> tuple[Kernels, Graph]:
    one = GRAPHS[name]()
    (kernels,) = link([planned(one)], check=True)
    assert [type(step) for step in kernels.plan.steps] == [AttentionPlan]
    return kernels, one


def tensors_of(one: Graph, rows: int, keys: int) -> list[torch.Tensor]:
    """Inputs for a graph; of a mask each row keeps something."""
    sizes = {"b": BATCH, "m": rows, "n": keys}
    made = []
    for node in one.inputs:
        shape = [sizes.get(str(size), size.constant) for size in node.shape]
        assert all(size is not None for size in shape)
        x = normal(*(int(size or 0) for size in shape))
        made.append(x > -0.5 if node.dtype is DType.BOOL else x)
        if node.dtype is DType.BOOL and keys:
            made[-1][..., 0] = True
    return made


def check(kernels: Kernels, one: Graph, tensors: list[torch.Tensor], form: str) -> None:
    """The results under several orders of threads, against float64, and how they were made.

    A result is a mean of values by weights that err by half a unit each, so relative to that of the
    values' magnitudes; an activation behind it has a slope of 1.13 at most."""
    wide = [t if t.dtype is torch.bool else t.double() for t in tensors]
    sizes = kernels.sizes(tensors)
    expected = evaluate(one.roots, dict(zip(one.inputs, wide, strict=True)), sizes)
    greatest = max(float(t.abs().max()) for t in wide if t.numel() and t.dtype is not torch.bool)
    first = None
    for seed in SEEDS:
        emulator_runtime().take_launched()
        actual = kernels(*tensors, seed=seed, check=True)
        (launched,) = emulator_runtime().take_launched()
        assert form in launched
        for one_actual, one_expected in zip(actual, expected, strict=True):
            error = (one_actual.double() - one_expected).abs()
            eps = torch.finfo(one_actual.dtype).eps
            bound = UNITS * eps * (1.13 * greatest + one_expected.abs())
            assert bool((error <= bound).all()), float((error / bound).max())
        assert first is None or all(map(torch.equal, first, actual))
        first = actual


@pytest.fixture(params=[9, 8])
def form(request: pytest.FixtureRequest) -> Iterator[str]:
    """Compute capabilities, and what is launched there."""
    emulator_runtime().set_capability(request.param)
    yield "warpgroup_kernel" if request.param == 9 else "_kernel<"
    emulator_runtime().set_capability(9)


# Whole tiles, tails, fewer than a tile, one key, and so many steps that greatest scores change.
SIZES = [(256, 128), (150, 200), (5, 8), (1, 520), (130, 72), (900, 72)]


@pytest.mark.parametrize("name", GRAPHS)
def test_every_layout_and_score(name: str, form: str) -> None:
    kernels, one = kernels_of(name)
    check(kernels, one, tensors_of(one, ROWS, KEYS), form)


@pytest.mark.parametrize(("rows", "keys"), SIZES)
def test_every_size(rows: int, keys: int, form: str) -> None:
    kernels, one = kernels_of("plain")
    check(kernels, one, tensors_of(one, rows, keys), form)


@pytest.mark.parametrize("keys", [1, 7, 129])
def test_odd_numbers_of_keys(keys: int, form: str) -> None:
    """A mask is met one by one then; where there is none, nothing is."""
    kernels, one = kernels_of("masked heads")
    alone = "warpgroup_kernel<1>" if form == "warpgroup_kernel" else "_kernel<1, true>"
    check(kernels, one, tensors_of(one, 20, keys), alone)
    kernels, one = kernels_of("plain")
    together = "warpgroup_kernel<8>" if form == "warpgroup_kernel" else "_kernel<8, true>"
    check(kernels, one, tensors_of(one, 20, keys), together)


@pytest.mark.parametrize("keys", [1, 5, 9, 13, 67])
def test_what_depends_on_the_key_by_itself(keys: int, form: str) -> None:
    """Where keys are no whole vectors, none is taken for another."""
    kernels, one = kernels_of("a bias by columns")
    check(kernels, one, tensors_of(one, 20, keys), form)


def test_a_mask_with_strides(form: str) -> None:
    kernels, one = kernels_of("masked heads")
    *tensors, mask = tensors_of(one, 70, 136)
    check(kernels, one, [*tensors, mask.t().contiguous().t()], form)


@pytest.mark.parametrize("layout", [padded, sliced])
def test_strides(layout: Callable[[torch.Tensor], torch.Tensor], form: str) -> None:
    """Padded operands are still read whole, whatever lies between them."""
    kernels, one = kernels_of("plain")
    tensors = [layout(t) for t in tensors_of(one, 70, 136)]
    check(kernels, one, tensors, form)


def test_operands_that_are_no_matrices() -> None:
    kernels, one = kernels_of("plain")
    wide = [torch.empty(*t.shape[:-1], t.shape[-1] * 3) for t in tensors_of(one, 40, 72)]
    spread = [x.to(torch.bfloat16)[..., ::3] for x in wide]
    for view, given in zip(spread, tensors_of(one, 40, 72), strict=True):
        view.copy_(given)
    check(kernels, one, spread, "_kernel<1, false>")


def test_an_operand_that_is_never_a_matrix() -> None:
    """Of one column there are no neighbours, in whatever strides."""
    q, k, v = half("q", 2, 33, "m", 1), half("k", 2, "m", "n", 1), half("v", 2, "n", "m", 24)
    turned = [apply("permute", x, dims=(0, 2, 1, 3)) for x in (q, v)]
    one = graph([q, k, v], attention(turned[0], k, turned[1]))
    (kernels,) = link([planned(one)], check=True)
    assert [type(step) for step in kernels.plan.steps] == [AttentionPlan]
    shapes = (2, 33, 5, 1), (2, 5, 70, 1), (2, 70, 5, 24)
    check(kernels, one, [normal(*shape) for shape in shapes], "_kernel<1, false>")


def test_no_keys_and_no_rows() -> None:
    """A sum of nothing is 0."""
    kernels, one = kernels_of("plain")
    (result,) = kernels(*tensors_of(one, 20, 0), check=True)
    assert torch.equal(result, torch.zeros_like(result))
    (empty,) = kernels(*tensors_of(one, 0, 20), check=True)
    assert empty.shape == (BATCH, 0, 64)


def eager(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, factor: float = 1.0) -> torch.Tensor:
    scores = q.double() @ k.double().transpose(-2, -1) * factor
    return torch.softmax(scores, dim=-1) @ v.double()


def special(scores: list[float], values: list[float]) -> tuple[torch.Tensor, ...]:
    """Queries that have `scores` with the keys of each batch, and `values` in all columns."""
    q, k = torch.zeros(1, 20, 64), torch.zeros(1, len(scores), 64)
    q[..., 0] = 1
    k[..., 0] = torch.tensor(scores)
    v = torch.tensor(values)[None, :, None].expand(1, -1, 64).contiguous()
    return tuple(x.to(torch.bfloat16) for x in (q, k, v))


# 200 keys are several tiles; what is special comes first, last, or everywhere.
INFINITY = float("inf")
SPECIAL = {
    "all -inf": [MINUS_INFINITY] * 200,
    "the first tiles -inf": [MINUS_INFINITY] * 150 + [1.0] * 50,
    "the last tiles -inf": [1.0] * 20 + [MINUS_INFINITY] * 180,
    "infinity": [1.0] * 199 + [INFINITY],
    "NaN first": [float("nan")] + [1.0] * 199,
    "NaN last": [1.0] * 199 + [float("nan")],
    "growing": [float(i) for i in range(200)],
    "huge": [3.2e38, -3.2e38] * 100,
    "far below 0": [-3.2e38] * 200,
    "beyond an exponential's range": [-1000.0, -1100.0] * 100,
    "rising far from 0": [2.0**22] * 64 + [2.0**22 + 2.0**15] * 64 + [2.0**22] * 72,
    "rising across the bound": [2.0**20] * 64 + [2.0**20 + 2.0**13] * 136,
}


@pytest.mark.parametrize("model", ["plain", "scaled"])
@pytest.mark.parametrize("name", SPECIAL)
def test_special_scores(name: str, model: str, form: str) -> None:
    """Values of up to 6, so that weights which err by half a unit move a result by 6 at most. The
    scores are products, or half of them."""
    kernels, _ = kernels_of(model)
    values = [float(i % 7) for i in range(200)]
    tensors = special(SPECIAL[name], values)
    (actual,) = kernels(*tensors, check=True)
    expected = eager(*tensors, factor=0.5 if model == "scaled" else 1.0)
    eps = torch.finfo(torch.bfloat16).eps
    torch.testing.assert_close(
        actual.double(), expected, rtol=eps, atol=6 * eps, equal_nan=True, check_stride=False
    )


@pytest.mark.parametrize("weight", [INFINITY, float("nan")])
def test_special_values(weight: float, form: str) -> None:
    """A value of a key that has no weight is still multiplied by it: 0 times infinity is NaN."""
    kernels, _ = kernels_of("plain")
    tensors = special([0.0] * 199 + [MINUS_INFINITY], [1.0] * 199 + [weight])
    (actual,) = kernels(*tensors, check=True)
    assert bool(actual.isnan().all()) and bool(eager(*tensors).isnan().all())


def cast(x: Node, dtype: DType) -> Node:
    return apply("to", x, dtype=dtype)


def rising(base: float, step: float) -> tuple[torch.Tensor, ...]:
    """Products that are `base` for 64 keys and `step` more for another 64, which 16 bits tell apart
    in parts; the values of the former are 0, those of the latter 1."""
    q, k = torch.zeros(1, 20, 64), torch.zeros(1, 128, 64)
    q[..., 0], q[..., 1] = 1, 1
    k[..., 0], k[:, 64:, 1] = base, step
    v = torch.cat([torch.zeros(1, 64, 64), torch.ones(1, 64, 64)], dim=1)
    return tuple(x.to(torch.bfloat16) for x in (q, k, v))


@pytest.mark.parametrize(
    ("base", "step"),
    [
        (1.5 * 2**22, 1.0),
        (2.0**23, 1.0),
        (2.0**22, 0.5),
        (2.0**21, 1.0),
        (2.0**20, 1.0),
        (-(2.0**20), 1.0),
    ],
)
def test_a_greatest_score_that_rises_far_from_0(base: float, step: float, form: str) -> None:
    """What was summed before is scaled by just what the scores differ by."""
    kernels, _ = kernels_of("plain")
    tensors = rising(base, step)
    (actual,) = kernels(*tensors, check=True)
    expected = eager(*tensors)
    eps = torch.finfo(torch.bfloat16).eps
    assert float((actual.double() - expected).abs().max()) <= UNITS * eps


@pytest.mark.parametrize("keys", [1, 2, 3, 150])
def test_values_near_the_end_of_the_range(keys: int, form: str) -> None:
    """A mean of the greatest numbers is no infinity, though their sum would be."""
    kernels, _ = kernels_of("plain")
    q, k, v = (torch.zeros(1, rows, 64, dtype=torch.bfloat16) for rows in (20, keys, keys))
    greatest = torch.finfo(torch.bfloat16).max
    (actual,) = kernels(q, k, torch.full_like(v, greatest), check=True)
    assert bool(
        ((actual.double() - greatest).abs() <= torch.finfo(actual.dtype).eps * greatest).all()
    )


def steps_of(*outputs: Node, inputs: tuple[Node, ...]) -> ModulePlan:
    return planned(graph(inputs, *outputs))


def test_what_is_not_fused() -> None:
    """Weights that are returned are stored; queries of few rows have no use for a tile; and what is
    multiplied must be a softmax of the products."""
    q, k, v = inputs = of_tensors(64)
    weights = softmax(matmul(q, transposed(k)))
    one = half("one", "b", 1, 64)
    scores = matmul(q, transposed(k))
    for plan in (
        steps_of(matmul(weights, v), weights, inputs=inputs),
        steps_of(attention(one, k, v), inputs=(one, k, v)),
        steps_of(matmul(apply("sigmoid", scores), v), inputs=inputs),
        steps_of(matmul(apply("softmax", scores, dim=1), v), inputs=inputs),
        steps_of(matmul(mul(weights, scores), v), inputs=inputs),
        steps_of(matmul(cast(cast(weights, DType.BOOL), DType.BFLOAT16), v), inputs=inputs),
        steps_of(matmul(cast(cast(weights, DType.INT32), DType.BFLOAT16), v), inputs=inputs),
    ):
        assert not any(isinstance(step, AttentionPlan) for step in plan.steps)


def _scored(score: Callable[[Node], Node]) -> AttentionPlan:
    q, k, v = inputs = of_tensors(64)
    (step,) = steps_of(attention(q, k, v, score), inputs=inputs).steps
    assert isinstance(step, AttentionPlan)
    return step


def _cut_off_below(x: Node) -> Node:
    return apply("where", apply("ge", x, -5.0), mul(x, 0.25), MINUS_INFINITY)


@pytest.mark.parametrize(
    ("score", "factor"),
    [
        (lambda x: x, 1.0),
        (lambda x: mul(x, 0.125), 0.125),
        (_cut_off_below, 0.25),
        (lambda x: mul(mul(x, 0.5), 0.125), 0.125),
        (lambda x: apply("div", x, 8.0), 0.125),
        (lambda x: apply("where", apply("ge", x, 5.0), MINUS_INFINITY, mul(x, 0.25)), 0.25),
        (lambda x: apply("div", x, 0.5), 1.0),  # which is 2
        (lambda x: add(mul(x, 0.125), 1.0), 1.0),  # which is no factor of all
        (lambda x: mul(x, 1.5), 1.0),  # and might make infinities
        (lambda x: mul(x, -0.5), 1.0),  # the greatest is another one
        (lambda x: mul(x, 0.0), 1.0),
        (lambda x: mul(x, 1e-30), 1.0),
        (lambda x: apply("where", apply("ge", x, 0.0), mul(x, 0.5), 0.0), 1.0),
    ],
)
def test_a_factor_of_all_scores_is_one_of_the_exponents(
    score: Callable[[Node], Node], factor: float
) -> None:
    step = _scored(score)
    assert step.factor == factor


def test_few_known_keys_are_fused_too() -> None:
    """Their softmax is part of the first product's kernel before the second one is seen."""
    q, k, v = half("q", "b", "m", 32), half("k", "b", 48, 32), half("v", "b", 48, 32)
    (step,) = steps_of(attention(q, k, v), inputs=(q, k, v)).steps
    assert isinstance(step, AttentionPlan)
