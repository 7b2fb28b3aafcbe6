"""Products whose operands are made of what is loaded, in shared memory."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch

from fusegen.ir.graph import Graph, Node
from fusegen.plan.cost import H100
from fusegen.plan.kernels.module import ModulePlan
from fusegen.plan.kernels.product import ProductPlan
from fusegen.runtime.loader import emulator_runtime
from tests.emulated import Kernels, Size, apply, graph, link, planned
from tests.kernels.families import add, gelu, group_norm, mul
from tests.kernels.test_operand_layouts import (
    check,
    half,
    heads,
    matmul,
    normal,
    padded,
    transposed,
)
from tests.kernels.test_tile_widths import on_tiles

SIZES = {"m": 131, "b": 3}

# Where operands are always made as they are loaded: a launch takes as long as anything.
SLOW_LAUNCHES = replace(H100, launch=1.0)


def relu(x: Node) -> Node:
    return apply("relu", x)


def reciprocal(x: Node) -> Node:
    return apply("reciprocal", x)


Body = Callable[..., Node]
Shapes = tuple[tuple[Size, ...], ...]

# Shapes of the inputs and the product: both sides, both layouts, what neighbours share, tails.
PREPARED: dict[str, tuple[Shapes, Body]] = {
    "relu(x) @ w.T": ((("m", 72), (264, 72)), lambda x, w: matmul(relu(x), transposed(w))),
    "relu(x) @ w": ((("m", 72), (72, 264)), lambda x, w: matmul(relu(x), w)),
    "x.T": ((("k", 136), (72, "k")), lambda x, w: matmul(transposed(relu(x)), transposed(w))),
    "x @ relu(w).T": ((("m", 72), (264, 72)), lambda x, w: matmul(x, transposed(relu(w)))),
    "dy.T @ relu(x)": ((("k", 136), ("k", 72)), lambda dy, x: matmul(transposed(dy), relu(x))),
    "both": (
        (("m", 72), (264, 72)),
        lambda x, w: matmul(relu(x), transposed(apply("neg", w))),
    ),
    "a scale for each of K": (
        (("m", 72), (264, 72), (72,)),
        lambda x, w, scale: matmul(relu(mul(x, scale)), transposed(w)),
    ),
    "a scale for each row": (
        (("m", 72), (264, 72), ("m", 1)),
        lambda x, w, scale: matmul(mul(x, scale), transposed(w)),
    ),
    "a scale for each column": (
        (("m", 72), (264, 72), (264, 1)),
        lambda x, w, scale: matmul(x, transposed(mul(w, scale))),
    ),
    "a scale for neighbouring lines": (
        (("k", 136), ("k", 72), (72,)),
        lambda dy, x, scale: matmul(transposed(dy), mul(x, scale)),
    ),
    "batches": (
        (("b", 40, 24), ("b", 24, 48), ("b", 1, 24)),
        lambda x, y, scale: matmul(relu(mul(x, scale)), y),
    ),
    "heads": (
        (("b", 40, 72), ("b", 136, 72)),
        lambda q, k: matmul(relu(heads(q, 3)), transposed(heads(k, 3))),
    ),
    "groups": (
        (("m", 64), (64, 64)),
        lambda x, w: group_norm(4)(gelu(matmul(relu(x), w))),
    ),
}


def scales(*shape: int) -> torch.Tensor:
    """Powers of two, so that nothing is rounded before it is multiplied."""
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.pow(2.0, torch.randint(-3, 4, shape, generator=generator)).bfloat16()


def graph_of(name: str) -> Graph:
    shapes, body = PREPARED[name]
    inputs = [half(f"x{i}", *shape) for i, shape in enumerate(shapes)]
    return graph(inputs, body(*inputs))


def tensors_of(name: str) -> list[torch.Tensor]:
    shapes, _ = PREPARED[name]
    sizes = {**SIZES, "k": 80}
    found = [[sizes[s] if isinstance(s, str) else int(str(s)) for s in shape] for shape in shapes]
    return [*(normal(*s) for s in found[:2]), *(scales(*s) for s in found[2:])]


def has_prologue(plan: ModulePlan) -> bool:
    products = [step for step in plan.steps if isinstance(step, ProductPlan)]
    return len(plan.steps) == 1 and bool(products[0].prologues)


@functools.cache
def compiled() -> dict[str, Kernels]:
    """The kernels of all graphs, from one file."""
    plans = [planned(graph_of(name), device=SLOW_LAUNCHES) for name in PREPARED]
    assert all(map(has_prologue, plans)), [len(plan.steps) for plan in plans]
    return dict(zip(PREPARED, link(plans, check=True), strict=True))


@pytest.mark.parametrize("name", PREPARED)
def test_prepared_operands(name: str) -> None:
    check(compiled()[name], graph_of(name), tensors_of(name), form="tensor_kernel")


@pytest.fixture(params=[7, 8])
def older_card(request: pytest.FixtureRequest) -> Iterator[str]:
    """A card without warpgroup products, and the form that it takes."""
    emulator_runtime().set_capability(request.param)
    yield {7: "_kernel<", 8: "mma_kernel"}[request.param]
    emulator_runtime().set_capability(9)


@pytest.mark.parametrize("name", ["a scale for each of K", "dy.T @ relu(x)", "both"])
def test_other_cards(name: str, older_card: str) -> None:
    check(compiled()[name], graph_of(name), tensors_of(name), form=older_card)


@pytest.mark.parametrize("rows", [1, 9, 200])
def test_narrow_tiles_and_parts_of_k(rows: int) -> None:
    x, w, scale = half("x", "m", 1040), half("w", 72, 1040), half("scale", 1040)
    one = graph([x, w, scale], matmul(relu(mul(x, scale)), transposed(w)))
    tensors = [normal(rows, 1040), normal(72, 1040), scales(1040)]
    plan = planned(one, device=SLOW_LAUNCHES)
    assert has_prologue(plan)
    for kernels in link([on_tiles(plan, 64), on_tiles(plan, 64, parts=2)], check=True):
        check(kernels, one, tensors, form="tensor_kernel")


@pytest.mark.parametrize("name", ["x @ relu(w).T", "dy.T @ relu(x)"])
def test_right_operands_of_narrow_tiles(name: str) -> None:
    widths = (32, 64) if name == "x @ relu(w).T" else (64,)
    plan = planned(graph_of(name), device=SLOW_LAUNCHES)
    for kernels in link([on_tiles(plan, width) for width in widths], check=True):
        check(kernels, graph_of(name), tensors_of(name), form="tensor_kernel")


def test_no_rows() -> None:
    """The planner is asked for the plan of a size that is empty, too."""
    x, w = half("x", "m", 72), half("w", 264, 72)
    assert planned(graph([x, w], matmul(relu(x), transposed(w))), {"m": 0}).steps


def test_values_that_are_used_twice_are_looked_at_once() -> None:
    """Else each would double the time that the planner takes."""
    x, w = half("x", "m", 72), half("w", 264, 72)
    made = x
    for _ in range(60):
        made = mul(made, made)
    assert planned(graph([x, w], matmul(made, transposed(w)))).steps


def test_what_is_made_of_zeros_beyond_the_edge() -> None:
    """The copies fill in zeros there, of which this makes infinities."""
    x, w = half("x", "m", 72), half("w", 264, 72)
    one = graph([x, w], matmul(reciprocal(x), transposed(w)))
    plan = planned(one, device=SLOW_LAUNCHES)
    assert has_prologue(plan)
    (kernels,) = link([plan], check=True)
    check(kernels, one, [scales(131, 72), normal(264, 72)], form="tensor_kernel")


def test_strided_operands() -> None:
    one, kernels = graph_of("a scale for each of K"), compiled()["a scale for each of K"]
    x, w, scale = tensors_of("a scale for each of K")
    check(kernels, one, [padded(x), padded(w), scale], form="tensor_kernel")
    apart = scale.repeat_interleave(2)[::2]
    check(kernels, one, [x, w, apart], form="_kernel<")


def unlike(change: Callable[[Node, Node], Node]) -> Graph:
    x, y, w = half("x", "m", 256), half("y", "m", 256), half("w", 2048, 256)
    return graph([x, y, w], matmul(change(x, y), transposed(w)))


@pytest.mark.parametrize(
    "change",
    [
        lambda x, y: add(relu(x), y),
        lambda x, y: gelu(apply("sin", gelu(x))),
        lambda x, y: apply("softmax", x, dim=-1),
    ],
    ids=["of two elements", "dear", "of a row"],
)
def test_operands_that_stand_in_memory(change: Callable[[Node, Node], Node]) -> None:
    plan = planned(unlike(change), {"m": 4096})
    assert len(plan.steps) == 2


def silu(x: Node) -> Node:
    return apply("silu", x)


@pytest.mark.parametrize(
    ("make", "rows", "depth", "columns", "is_prepared"),
    [
        (relu, 65536, 1024, 128, True),  # 48 us on an H200; 108 by two kernels
        (relu, 8192, 1024, 1024, True),  # 32; 37
        (relu, 4096, 4096, 1024, True),  # 52; 63
        (silu, 65536, 1024, 128, True),  # 79; 109
        (relu, 1024, 8192, 8192, False),  # 194; 181
        (relu, 128, 4096, 4096, False),  # 24; 20
        (silu, 8192, 1024, 1024, False),  # 48; 38
        (silu, 4096, 4096, 1024, False),  # 86; 63
    ],
)
def test_what_was_measured_to_be_quicker(
    make: Callable[[Node], Node], rows: int, depth: int, columns: int, is_prepared: bool
) -> None:
    x, w = half("x", "m", depth), half("w", columns, depth)
    plan = planned(graph([x, w], matmul(make(x), transposed(w))), {"m": rows})
    assert has_prologue(plan) is is_prepared


def test_an_operand_that_others_need() -> None:
    x, w = half("x", "m", 256), half("w", 256, 256)
    made = relu(x)
    plan = planned(graph([x, w], matmul(made, transposed(w)), made))
    assert len(plan.steps) == 2
