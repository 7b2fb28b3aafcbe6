"""Products on the tensor cores whose operands lie in memory in every way, and those that do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node
from fusegen.runtime.loader import emulator_runtime
from tests.emulated import Kernels, Size, apply, build, graph, value
from tests.kernels.families import add, gelu, group_norm
from tests.ops.examples import torch_dtype
from tests.reference import evaluate

SEEDS = (0, 1, 2)


def half(name: str, *shape: Size) -> Node:
    return value(name, *shape, dtype=DType.BFLOAT16)


def transposed(x: Node) -> Node:
    return apply("transpose", x, dim0=-2, dim1=-1)


def matmul(left: Node, right: Node) -> Node:
    return apply("matmul", left, right)


def normal(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator).to(dtype)


def took_tensor_cores() -> bool:
    return "tensor_kernel" in emulator_runtime().last_kernel()


def check(
    kernels: Kernels, one: Graph, tensors: Sequence[torch.Tensor], *, on_tensor_cores: bool
) -> None:
    """The result under several orders of threads, against float64.

    Products of bfloat16 numbers are exact in float32, and a sum of K of them errs by K rounding
    units of float32 at most, which is far below the half unit of bfloat16 that storing it costs.
    """
    wide = [t.double() for t in tensors]
    sizes = kernels._sizes(tensors)
    (expected,) = evaluate(one.roots, dict(zip(one.inputs, wide, strict=True)), sizes)
    eps = torch.finfo(one.roots[0].dtype and torch_dtype(one.roots[0].dtype)).eps
    first = None
    for seed in SEEDS:
        (actual,) = kernels(*tensors, seed=seed, check=True)
        assert took_tensor_cores() == on_tensor_cores
        error = (actual.double() - expected).abs()
        assert bool((error <= eps * expected.abs() + 4 * eps).all()), error.max()
        assert first is None or torch.equal(first, actual)
        first = actual


Pair = tuple[tuple[Size, ...], tuple[Size, ...], Callable[[Node, Node], Node]]

# Both operands' shapes and the product: every combination of layouts, tails in every direction.
PRODUCTS: dict[str, Pair] = {
    "x @ w": (("m", 72), (72, 264), matmul),
    "x @ w.T": (("m", 72), (264, 72), lambda x, w: matmul(x, transposed(w))),
    "dy.T @ x": ((77, 136), (77, 72), lambda dy, x: matmul(transposed(dy), x)),
    "x.T @ w.T": ((24, 136), (40, 24), lambda x, w: matmul(transposed(x), transposed(w))),
    "a depth of 1": ((1, 136), (1, 72), lambda x, y: matmul(transposed(x), y)),
    "a row": ((1, 72), (72, 40), matmul),
    "batches": (("b", 40, 24), ("b", 24, 48), matmul),
    "batches, x.T @ y": (("b", 24, 40), ("b", 24, 48), lambda x, y: matmul(transposed(x), y)),
    "a matrix for all batches": (("b", 40, 24), (1, 24, 48), matmul),
    "rows of two dims": (("b", 40, 24), (24, 48), matmul),
    "a slice": (
        ("m", 24),
        (24, 160),
        lambda x, w: matmul(x, apply("narrow", w, dim=1, start=32, length=72)),
    ),
    "an epilogue": (("m", 64), (64, 64), lambda x, w: gelu(add(matmul(x, w), x))),
    "groups": (("m", 64), (64, 64), lambda x, w: group_norm(4)(gelu(matmul(x, w)))),
    "row sums": (("m", 64), (64, 320), lambda x, w: apply("logsumexp", matmul(x, w), dim=1)),
}
SIZES = {"m": 131, "b": 3}


def shape_of(sizes: tuple[Size, ...]) -> tuple[int, ...]:
    return tuple(SIZES[s] if isinstance(s, str) else int(s) for s in sizes)  # type: ignore[call-overload]


@pytest.mark.parametrize("name", PRODUCTS)
def test_contiguous_operands(name: str) -> None:
    left, right, body = PRODUCTS[name]
    inputs = [half("left", *left), half("right", *right)]
    one = graph(inputs, body(*inputs))
    (kernels,) = build([one], check=True)
    check(kernels, one, [normal(*shape_of(left)), normal(*shape_of(right))], on_tensor_cores=True)
