"""Products of what is made of other products, which stay in registers: attention's gradients, and
other operands that are made element by element."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import pytest
import torch

from fusegen.codegen.back_to_back import back_to_back_text
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node
from fusegen.plan.kernels.attention import AttentionPlan
from fusegen.plan.kernels.back_to_back import BackToBackPlan
from fusegen.runtime.loader import emulator_runtime
from tests.emulated import Kernels, apply, graph, link, planned, value
from tests.kernels.families import add, gelu, mul
from tests.kernels.test_attention import (
    GRAPHS,
    KEYS,
    MINUS_INFINITY,
    ROWS,
    SEEDS,
    attention,
    half,
    of_tensors,
    tensors_of,
    together,
)
from tests.kernels.test_operand_layouts import heads, matmul, normal, padded, sliced, transposed
from tests.reference import evaluate
from tests.trained import Trained, compare, trained


@pytest.fixture(params=[9, 8])
def form(request: pytest.FixtureRequest) -> Iterator[str]:
    """Compute capabilities, and what is launched there."""
    emulator_runtime().set_capability(request.param)
    yield "warpgroup_kernel<" if request.param == 9 else "_kernel<"
    emulator_runtime().set_capability(9)


def _masked_by_columns() -> Graph:
    """A mask whose neighbours are not those of the scores, for lines that have all heads."""
    q, k, v = (half(name, "b", size, 48) for name, size in (("q", "m"), ("k", "n"), ("v", "n")))
    mask = value("mask", "n", "m", dtype=DType.BOOL)
    turned = apply("transpose", mask, dim0=0, dim1=1)
    apart = [heads(x, 3) for x in (q, k, v)]

    def score(x: Node) -> Node:
        return apply("where", turned, apply("tanh", mul(x, 0.3)), MINUS_INFINITY)

    return graph([q, k, v, mask], together(attention(*apart, score)))


def _itself() -> Graph:
    """Queries, keys and values that are one tensor."""
    x = half("q", "b", "m", 64)
    return graph([x], attention(x, x, x, lambda scores: mul(scores, 0.125)))


def _other_width() -> Graph:
    q, k, v = of_tensors(40, 72)
    return graph([q, k, v], attention(q, k, v))


# Of those that attention's own tests have, the ones without a bias that has a gradient.
WITHOUT_BIAS = (
    "plain",
    "scaled",
    "wide",
    "narrow",
    "wide values",
    "masked heads",
    "an epilogue and two results",
    "turned operands",
    "shared keys",
    "no batches",
)
MODELS: dict[str, Callable[[], Graph]] = {
    **{name: GRAPHS[name] for name in WITHOUT_BIAS},
    "a mask by columns": _masked_by_columns,
    "one tensor": _itself,
    "odd widths": _other_width,
}


@functools.cache
def model(name: str) -> Trained:
    """A model's kernels, of which forward and backward store no scores."""
    (made,) = trained([MODELS[name]()])
    assert [type(step) for step in made.forward.plan.steps] == [AttentionPlan]
    steps = made.backward.plan.steps
    assert sum(isinstance(step, BackToBackPlan) for step in steps) == 2
    sizes = {"b": 1, "m": 1009, "n": 1013}
    written = (buffer for step in (*made.forward.plan.steps, *steps) for buffer in step.written)
    assert all(buffer.type.count.evaluate(sizes) % (1009 * 1013) for buffer in written)
    return made


def check(made: Trained, tensors: list[torch.Tensor]) -> None:
    """The gradients under several orders of threads: within twice eager's error, and the same."""
    sizes = made.forward.sizes(tensors)
    compare(made, tensors, sizes)
    shapes = ([size.evaluate(sizes) for size in o.node.shape] for o in made.graph.outputs)
    upstream = [normal(*shape) for shape in shapes]
    first, second = (made.gradients(tensors, upstream, seed=seed) for seed in SEEDS)
    for node, gradient in first.items():
        assert torch.equal(gradient, second[node])


@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_every_layout_and_score(name: str, form: str) -> None:
    made = model(name)
    emulator_runtime().take_launched()
    check(made, tensors_of(made.graph, ROWS, KEYS))
    launched = emulator_runtime().take_launched()
    assert any(
        form.replace("<", "<2" if name == "turned operands" else "<8") in n for n in launched
    )


SIZES = [(256, 128), (150, 200), (5, 8), (1, 520), (130, 72), (64, 128), (65, 129)]


@pytest.mark.parametrize(("rows", "keys"), SIZES)
def test_every_size(rows: int, keys: int, form: str) -> None:
    """Whole tiles, tails, fewer than a tile, and a single query."""
    made = model("plain")
    check(made, tensors_of(made.graph, rows, keys))


@pytest.mark.parametrize(("rows", "keys"), [(7, 9), (67, 13), (130, 3)])
def test_what_is_met_one_by_one(rows: int, keys: int, form: str) -> None:
    """Where queries or keys are no whole vectors."""
    made = model("masked heads")
    check(made, tensors_of(made.graph, rows, keys))
    made = model("a mask by columns")
    *tensors, mask = tensors_of(made.graph, rows, keys)
    mask[0] = True  # of every query's keys
    check(made, [*tensors, mask])


@pytest.mark.parametrize("layout", [padded, sliced])
def test_strides(layout: Callable[[torch.Tensor], torch.Tensor], form: str) -> None:
    made = model("plain")
    check(made, [layout(t) for t in tensors_of(made.graph, 70, 136)])


def test_a_mask_with_strides(form: str) -> None:
    made = model("masked heads")
    *tensors, mask = tensors_of(made.graph, 70, 136)
    check(made, [*tensors, mask.t().contiguous().t()])


def test_operands_that_are_no_matrices() -> None:
    """They are read element by element."""
    made = model("plain")
    given = tensors_of(made.graph, 40, 72)
    wide = [torch.empty(*t.shape[:-1], t.shape[-1] * 3) for t in given]
    spread = [x.to(torch.bfloat16)[..., ::3] for x in wide]
    for view, tensor in zip(spread, given, strict=True):
        view.copy_(tensor)
    emulator_runtime().take_launched()
    check(made, spread)
    assert sum("_kernel<1, false>" in n for n in emulator_runtime().take_launched()) >= 6


def test_a_row_without_keys_has_gradients_that_are_not_numbers(form: str) -> None:
    """As PyTorch's softmax of nothing but -inf; other rows and keys keep theirs."""
    made = model("masked heads")
    q, k, v, mask = tensors_of(made.graph, 40, 72)
    mask[7] = False
    results = made.forward(q, k, v, mask, check=True)
    assert bool(results[0][:, 7].isnan().all())
    found = made.gradients([q, k, v, mask], [normal(*results[0].shape)])
    gradients = dict(zip(("q", "k", "v"), list(found.values()), strict=True))
    others = [row for row in range(40) if row != 7]
    assert bool(gradients["q"][:, others].isfinite().all())
    # `where` keeps its scores' gradients 0, but the values' gradients have its weights.
    assert bool(gradients["q"][:, 7].isfinite().all()) and bool(gradients["k"].isfinite().all())
    assert bool(gradients["v"].isnan().all())


@pytest.mark.parametrize(("values", "keys"), [(10, 0), (10, 2), (100, 2), (0, 10)])
def test_means_of_values_and_keys(values: float, keys: float) -> None:
    """What a row's sum errs by is the same for all keys: it would be as many times their mean."""
    made = model("narrow")
    q, k, v = tensors_of(made.graph, 40, 256)
    check(made, [q, k + keys, v + values])


def test_great_scores(form: str) -> None:
    """Far from 0 the weights are still those of the differences."""
    made = model("plain")
    tensors = tensors_of(made.graph, 40, 72)
    check(made, [tensors[0] * 60, tensors[1] * 60, tensors[2]])


# Operands that are made of products without a softmax, and what eager PyTorch makes of them.
def _gated() -> Graph:
    """Of two products, with what depends on row and column."""
    a, b, c = half("q", "b", "m", 64), half("k", "b", "n", 64), half("v", "b", "n", 48)
    slope, bias = half("slope", "b", "m", 1), half("bias", "m", "n")
    gate = apply("sigmoid", matmul(a, transposed(b)))
    made = mul(add(mul(gate, slope), bias), matmul(a, transposed(b)))
    return graph([a, b, c, slope, bias], add(gelu(matmul(made, c)), 1.0))


def _chained() -> Graph:
    a, b, c = half("q", "b", "m", 32), half("k", "b", "n", 32), half("v", "b", "n", 96)
    return graph([a, b, c], matmul(apply("relu", matmul(a, transposed(b))), c))


CHAINS: dict[str, Callable[[], Graph]] = {"two factors": _gated, "one product": _chained}


@functools.cache
def chain(name: str) -> tuple[Kernels, Graph]:
    one = CHAINS[name]()
    (kernels,) = link([planned(one)], check=True)
    assert [type(step) for step in kernels.plan.steps] == [BackToBackPlan]
    return kernels, one


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize(("rows", "keys"), [(152, 200), (40, 67), (3, 130)])
def test_operands_made_of_products(name: str, rows: int, keys: int, form: str) -> None:
    """In the norm within twice eager's error from float64, and a unit of the result's."""
    kernels, one = chain(name)
    tensors = [t * 0.3 for t in tensors_of(one, rows, keys)]
    sizes = kernels.sizes(tensors)
    wide = dict(zip(one.inputs, (t.double() for t in tensors), strict=True))
    (expected,) = evaluate(one.roots, wide, sizes)
    (eager,) = evaluate(one.roots, dict(zip(one.inputs, tensors, strict=True)), sizes)
    unit = torch.finfo(eager.dtype).eps
    allowed = 2 * (eager.double() - expected).norm() + unit * expected.norm()
    first = None
    for seed in SEEDS:
        (actual,) = kernels(*tensors, seed=seed, check=True)
        assert (actual.double() - expected).norm() <= allowed
        assert first is None or torch.equal(first, actual)
        first = actual


@pytest.mark.parametrize("name", [*CHAINS, "wide", "wide values"])
def test_tiles_fit_into_every_cards_shared_memory(name: str) -> None:
    """Cards of compute capability 8.6 and 8.9 have 99 KiB for a block (CUDA C++ Programming Guide,
    "Technical Specifications per Compute Capability")."""
    plan = chain(name)[0].plan if name in CHAINS else model(name).backward.plan
    texts = [back_to_back_text(s) for s in plan.steps if isinstance(s, BackToBackPlan)]
    assert texts and all(text.by_warps.shared_bytes <= 99 * 1024 for text in texts)
