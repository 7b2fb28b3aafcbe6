"""Where a product's elements are stored: at their place in what is made of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusegen.frontend import Source, elaborate, parse
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Node
from fusegen.ir.integers import Integer
from fusegen.ops import build
from fusegen.passes import pipeline
from fusegen.passes.differentiation import differentiate
from fusegen.plan.boundaries import boundaries
from fusegen.plan.kernels.elementwise import ElementwisePlan
from fusegen.plan.kernels.epilogues import ElementEpilogue
from fusegen.plan.kernels.product import ProductPlan
from fusegen.plan.module import plan_module
from fusegen.plan.places import place_in
from tests.emulated import apply, graph, planned, value
from tests.kernels.families import add, gelu
from tests.plan.numeric import evaluate

SIZES = {"n": 3, "m": 2}


@st.composite
def chains(draw: st.DrawFn) -> list[Node]:
    """A value of symbolic shape under permutations, reshapes and elementwise operations."""
    shapes = [("n", 4), ("n", "m", 2), (3, "m"), ("n", 1, 6)]
    chain = [value("x", *draw(st.sampled_from(shapes)))]
    for _ in range(draw(st.integers(1, 5))):
        x = chain[-1]
        kind = draw(st.sampled_from(["permute", "merge", "split", "residual", "lead"]))
        if kind == "permute":
            chain.append(build.permute(x, draw(st.permutations(range(x.type.rank)))))
        elif kind == "merge" and x.type.rank > 1:
            chain.append(build.reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:])))
        elif kind == "split" and x.shape[-1].constant in (4, 6):
            chain.append(build.reshape(x, (*x.shape[:-1], 2, x.shape[-1] // 2)))
        elif kind == "residual":
            chain.append(build.add(value("r", *x.shape), x))
        else:
            chain.append(build.add(x, value("r", 1, *x.shape)))
    return [*dict.fromkeys(chain)]  # the identity is no view


def as_numpy(chain: list[Node]) -> np.ndarray:
    """The first value's positions where NumPy finds them in the last."""
    shape = [evaluate(size, SIZES) for size in chain[0].shape]
    found = np.arange(int(np.prod(shape))).reshape(shape)
    for node in chain[1:]:
        if node.operation.name == "permute":
            found = found.transpose(node.attributes.integers("dims"))
        else:
            found = found.reshape([evaluate(size, SIZES) for size in node.shape])
    return found


@given(chain=chains())
def test_places_are_those_of_numpy(chain: list[Node]) -> None:
    index = Integer.symbol("index", chain[0].type.count)
    place = place_in(chain[-1], chain[0], index, chain)
    found = as_numpy(chain).reshape(-1)
    for position in range(len(found)):
        assert found[evaluate(place, {**SIZES, "index": position})] == position


def test_what_another_kernel_computes_is_not_followed() -> None:
    x = value("x", 3, 4)
    first = build.neg(x)
    last = build.neg(build.permute(first, (1, 0)))
    index = Integer.symbol("index", 12)
    assert place_in(last, x, index, {last}) == index
    assert place_in(last, x, index, {first, last}) == index % 4 * 3 + index // 4


ATTENTION = """\
model Attention(heads=16, width=64):
    input q: [batch, time, heads * width]
    input k: [batch, keys, heads * width]
    input v: [batch, keys, heads * width]
    qh = reshape(q, (batch, time, heads, width)) |> permute((0, 2, 1, 3))
    kh = reshape(k, (batch, keys, heads, width)) |> permute((0, 2, 3, 1))
    vh = reshape(v, (batch, keys, heads, width)) |> permute((0, 2, 1, 3))
    y = softmax(qh @ kh * width ** -0.5, dim=-1) @ vh
    return y |> permute((0, 2, 1, 3)) |> reshape((batch, time, heads * width))
"""


@pytest.mark.parametrize("dtype", [DType.BFLOAT16, DType.FLOAT32], ids=str)
def test_attention_copies_nothing(dtype: DType) -> None:
    """Nor does its backward, in which the keys' gradient is the transposed product."""
    model = elaborate(parse(Source("attention.fuse", ATTENTION)), dtype=dtype).graph
    found = differentiate(model)
    assert found is not None
    forward, backward = (
        plan_module(pipeline.run(side), dtype) for side in (found.forward, found.backward)
    )
    assert [step.name for step in forward.steps] == ["matmul_mul", "softmax", "matmul_clone"]
    assert not any(isinstance(step, ElementwisePlan) for step in backward.steps)
    moved = [step for step in backward.steps if isinstance(step, ProductPlan)]
    assert sum("whose dims have another order" in step.why for step in moved) == 3


def matmul(x: Node, y: Node) -> Node:
    return apply("matmul", x, y)


def permuted(x: Node, *order: int) -> Node:
    return apply("permute", x, dims=order)


X, Y = value("x", "b", 3, "m", 24), value("y", "b", 3, 24, 40)
FLAT, WEIGHT = value("x", "b", "m", 24), value("w", 24, 48)
PRODUCT, LINEAR = matmul(X, Y), matmul(FLAT, WEIGHT)
RESIDUAL = value("r", "b", "m", 3, 40)
APART = apply("reshape", LINEAR, shape=(*LINEAR.shape[:2], 3, 16))


@pytest.mark.parametrize(
    ("inputs", "results"),
    [
        pytest.param([X, Y], [permuted(PRODUCT, 0, 2, 1, 3)], id="a copy"),
        pytest.param([X, Y], [PRODUCT, permuted(PRODUCT, 2, 1, 0, 3)], id="a copy and itself"),
        pytest.param([X, Y], [permuted(gelu(PRODUCT), 1, 0, 2, 3)], id="of what follows"),
        pytest.param(
            [X, Y, RESIDUAL],
            [gelu(add(permuted(PRODUCT, 0, 2, 1, 3), RESIDUAL))],
            id="what follows the copy",
        ),
        pytest.param([FLAT, WEIGHT], [permuted(APART, 0, 2, 1, 3)], id="columns of 3 x 16"),
    ],
)
def test_one_kernel_stores_the_elements_at_their_places(
    inputs: list[Node], results: list[Node]
) -> None:
    plan = planned(graph(inputs, *results))
    (step,) = plan.steps
    assert isinstance(step, ProductPlan) and isinstance(step.epilogue, ElementEpilogue)
    assert len(step.epilogue.stores) == len(results)
    assert len({store.position for store in step.epilogue.stores}) == len(results)


THIRDS = apply("reshape", LINEAR, shape=(*LINEAR.shape[:2], 16, 3))


@pytest.mark.parametrize(
    ("inputs", "result"),
    [
        pytest.param([X, Y], permuted(PRODUCT, 0, 1, 3, 2), id="columns become rows"),
        pytest.param([FLAT, WEIGHT], permuted(THIRDS, 0, 2, 1, 3), id="columns of 16 x 3"),
    ],
)
def test_neighbours_that_would_part_are_copied_by_a_kernel_of_its_own(
    inputs: list[Node], result: Node
) -> None:
    plan = planned(graph(inputs, result))
    assert [type(step) for step in plan.steps] == [ProductPlan, ElementwisePlan]
    (boundary,) = boundaries(plan)
    assert "neighbouring columns of the product are none in a result" in boundary.why


def test_two_places_of_one_element_are_two_kernels() -> None:
    """The sum of a product and its transpose over batches."""
    x, y = value("x", 4, 4, "m", 24), value("y", 4, 4, 24, 40)
    product = matmul(x, y)
    plan = planned(graph([x, y], add(product, permuted(product, 1, 0, 2, 3))))
    assert [type(step) for step in plan.steps] == [ProductPlan, ElementwisePlan]
    (boundary,) = boundaries(plan)
    assert "matmul is read at another element than the thread's own" in boundary.why
