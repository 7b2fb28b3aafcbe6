"""Dropout in every family of kernels, both ways: the mask is that of the reference."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import torch

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node
from fusegen.ops.composite.dropout import CHANNELS_DROPPED, DROPPED
from fusegen.ops.construct import call
from fusegen.ops.record import Record
from tests.emulated import Size, apply, graph, value
from tests.kernels.families import add, convolved, gelu, linear, mul, softmax
from tests.ops.examples import torch_dtype
from tests.reference import evaluate
from tests.trained import Trained, compare, trained

SEED = value("seed", dtype=DType.INT64)
SIZES = {"n": 5, "h": 5, "w": 6}
SCALE = 1 / 0.7


def drop(x: Node, number: int = 0, record: Record = DROPPED, mask_rank: int | None = None) -> Node:
    return call(record, (x, SEED), p=0.3, number=number, mask_rank=mask_rank)


def inputs(*shapes: tuple[Size, ...], dtype: DType = DType.FLOAT32) -> list[Node]:
    return [value(f"x{i}", *shape, dtype=dtype) for i, shape in enumerate(shapes)]


def graphs() -> Mapping[str, Graph]:
    """One of each family and form in which a choice is computed."""
    found: dict[str, tuple[list[Node], Node]] = {}
    x, y = given = inputs(("n", 24), ("n", 24))
    found["elementwise"] = given, mul(drop(gelu(x)), y)
    found["two dropouts"] = given, add(drop(x), drop(y, 1))
    transposed = apply("transpose", x, dim0=0, dim1=1)
    found["of a view"] = given, mul(drop(transposed), apply("transpose", y, dim0=0, dim1=1))
    found["a part of one"] = given, gelu(apply("narrow", drop(add(x, y)), dim=1, start=3, length=9))
    found["joined"] = given, apply("cat", drop(x), gelu(y), dim=1)
    normed = apply("layer_norm", add(x, drop(y)), normalized_shape=(24,))
    found["rows"] = given, normed
    found["columns"] = given, apply("sum", mul(drop(x), y), dim=0)
    found["of probabilities"] = (
        given,
        apply("matmul", drop(softmax(x)), apply("transpose", y, dim0=0, dim1=1)),
    )
    (odd,) = given = inputs(("n", 7), dtype=DType.BFLOAT16)
    found["odd, 16 bits"] = given, drop(gelu(odd))
    found["odd columns"] = given, apply("sum", drop(odd), dim=0)
    (wide,) = given = inputs((2, 16), dtype=DType.BFLOAT16)
    found["vectors of 16 bits"] = given, drop(gelu(wide))
    x, w, b = given = inputs((66, 20), (24, 20), (24,))
    found["product"] = given, add(drop(gelu(linear(x, w, b))), 1.0)
    found["groups of a product"] = given, softmax(drop(linear(x, w, b)))
    x, w = given = inputs((5, 16), (130, 16))
    found["row sums of a product"] = given, apply("logsumexp", drop(linear(x, w)), dim=1)
    x, w = given = inputs(("n", 64), (128, 64), dtype=DType.BFLOAT16)
    found["product on tensor cores"] = given, drop(gelu(linear(x, w)))
    x, w = given = inputs((2, 8, "h", "w"), (8, 8, 3, 3))
    found["convolution"] = given, drop(convolved(padding=1)(x, w))
    (x,) = given = inputs((2, 6, "h", "w"))
    found["channels"] = given, drop(gelu(x), record=CHANNELS_DROPPED[2], mask_rank=2)
    return {name: graph([*given, SEED], root) for name, (given, root) in found.items()}


@functools.cache
def kernels() -> Mapping[str, Trained]:
    """All of them, compiled together."""
    made = graphs()
    return dict(zip(made, trained(list(made.values())), strict=True))


def tensors(made: Trained, seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(4)
    drawn = []
    for node in made.arguments[:-1]:
        shape = [size.evaluate(SIZES) for size in node.shape]
        drawn.append(torch.randn(shape, generator=generator).to(torch_dtype(node.dtype)))
    return [*drawn, torch.tensor(seed)]


def exact(made: Trained, given: list[torch.Tensor]) -> torch.Tensor:
    double = [x.double() if x.is_floating_point() else x for x in given]
    return evaluate(made.graph.roots, dict(zip(made.arguments, double, strict=True)), SIZES)[0]


def test_forward_and_backward_have_the_mask_of_the_reference() -> None:
    """Another mask would move a third of all elements by their own size."""
    for seed in (-(2**62) - 1, 77):
        for name, made in kernels().items():
            given = tensors(made, seed)
            result, *_ = made.forward(*given, check=True)
            eager = evaluate(made.graph.roots, dict(zip(made.arguments, given, strict=True)), SIZES)
            truth = exact(made, given)
            unit = torch.finfo(result.dtype).eps
            allowed = 2 * (eager[0].double() - truth).norm() + unit * truth.norm()
            assert (result.double() - truth).norm() <= allowed, name
            compare(made, given, SIZES)


def test_the_mask_does_not_depend_on_the_order_of_threads_or_on_layouts() -> None:
    made = kernels()["elementwise"]
    x, y, seed = tensors(made, 5)
    first = made.forward(x, y, seed)[0]
    for order in range(1, 4):
        assert torch.equal(first, made.forward(x, y, seed, seed=order)[0])
    assert torch.equal(first, made.forward(x.t().contiguous().t(), y, seed)[0])
    spread = torch.zeros(10, 48)
    spread[::2, ::2] = x
    assert torch.equal(first, made.forward(spread[::2, ::2], y, seed)[0])


def test_the_gradient_is_the_mask_over_what_is_kept() -> None:
    """Exactly: 0, or 1 / (1 - p) rounded to the dtype's arithmetic."""
    made = kernels()["two dropouts"]
    given = tensors(made, 11)
    upstream = torch.ones(5, 24)
    gradients = made.gradients(given, [upstream])
    masks = []
    for node, other in ((0, 1), (1, 0)):
        given[other].zero_()
        own = made.forward(*given)[0] != 0
        assert torch.equal(gradients[made.arguments[node]], own * torch.tensor(SCALE))
        masks.append(own)
        given = tensors(made, 11)
    assert not torch.equal(*masks)
