"""Products of few rows, which read their right operand once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Node
from fusegen.plan.kernels.product import ProductPlan
from fusegen.runtime.loader import emulator_runtime
from tests.emulated import Size, apply, build, graph, planned, value
from tests.kernels.families import add, gelu, group_norm
from tests.ops.examples import torch_dtype
from tests.reference import evaluate

SEEDS = (0, 1, 2)

Body = Callable[[Node, Node], Node]


def transposed(x: Node) -> Node:
    return apply("transpose", x, dim0=-2, dim1=-1)


def linear(x: Node, w: Node) -> Node:
    return apply("matmul", x, transposed(w))


def matmul(x: Node, w: Node) -> Node:
    return apply("matmul", x, w)


# Both operands' shapes, "m" and "b" being rows and batches, and the product.
PRODUCTS: dict[str, tuple[tuple[Size, ...], tuple[Size, ...], Body]] = {
    "x @ w.T": (("m", 400), (70, 400), linear),
    "x @ w": (("m", 400), (400, 72), matmul),
    "one column": (("m", 24), (1, 24), linear),
    "four columns": (("m", 8), (8, 8), matmul),
    "batches": (("b", "m", 40), ("b", 40, 48), matmul),
    "a matrix for all batches": (("b", "m", 40), (1, 33, 40), linear),
    "an epilogue": (("m", 64), (64, 64), lambda x, w: gelu(add(linear(x, w), x))),
    "groups": (("m", 64), (96, 64), lambda x, w: group_norm(6)(gelu(linear(x, w)))),
    "groups of 64": (("m", 64), (64, 128), lambda x, w: group_norm(2)(matmul(x, w))),
    "row sums": (("m", 64), (150, 64), lambda x, w: apply("logsumexp", linear(x, w), dim=1)),
    "row sums, x @ w": (("m", 64), (64, 152), lambda x, w: apply("amax", matmul(x, w), dim=1)),
}


def check(name: str, dtype: DType, rows: tuple[int, ...], batches: int = 3) -> None:
    """The results for so many rows, under several orders of threads, against float64.

    A sum of K products errs by at most K rounding units of float32 times the sum of their sizes,
    here of normal numbers; storing adds half a unit of the result's type.
    """
    left, right, body = PRODUCTS[name]
    inputs = [value("left", *left, dtype=dtype), value("right", *right, dtype=dtype)]
    one = graph(inputs, body(*inputs))
    (kernels,) = build([one], check=True)
    for count in rows:
        sizes = {"m": count, "b": batches}
        generator = torch.Generator().manual_seed(count)
        tensors = [
            torch.randn([sizes.get(str(s), s) for s in shape], generator=generator).to(
                torch_dtype(dtype)
            )
            for shape in (left, right)
        ]
        wide = [t.double() for t in tensors]
        (expected,) = evaluate(one.roots, dict(zip(one.inputs, wide, strict=True)), sizes)
        single = torch.finfo(torch.float32).eps * tensors[0].shape[-1] ** 1.5
        bound = torch.finfo(tensors[0].dtype).eps * expected.abs() + 4 * single
        first = None
        for seed in SEEDS:
            emulator_runtime().take_launched()
            (actual,) = kernels(*tensors, seed=seed, check=True)
            assert "skinny_kernel" in emulator_runtime().take_launched()[0]
            error = (actual.double() - expected).abs()
            assert bool((error <= bound).all()), (count, error.max())
            assert first is None or torch.equal(first, actual)
            first = actual


@pytest.mark.parametrize("name", PRODUCTS)
def test_float32(name: str) -> None:
    check(name, DType.FLOAT32, (1, 3, 16))


@pytest.mark.parametrize("name", ["x @ w.T", "x @ w", "groups", "row sums, x @ w"])
@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16])
def test_16_bits(name: str, dtype: DType) -> None:
    """On a device without warpgroup products, which would take them."""
    emulator_runtime().set_capability(8)
    try:
        check(name, dtype, (2, 7))
    finally:
        emulator_runtime().set_capability(9)


def test_infinities_beyond_the_depth_a_thread_reads_have_no_part() -> None:
    inputs = [value("x", "m", 136), value("w", 40, 136)]
    one = graph(inputs, linear(*inputs))
    (kernels,) = build([one], check=True)
    x, w = torch.randn(3, 136), torch.randn(40, 136)
    x[0, 0] = x[2, 135] = float("inf")
    (actual,) = kernels(x, w, check=True)
    torch.testing.assert_close(actual, x @ w.T, rtol=1e-4, atol=1e-4, equal_nan=True)


def test_no_depth_gives_zeros() -> None:
    inputs = [value("x", "m", "k"), value("w", 40, "k")]
    one = graph(inputs, linear(*inputs))
    (kernels,) = build([one], check=True)
    (actual,) = kernels(torch.empty(3, 0), torch.empty(40, 0), check=True)
    assert torch.equal(actual, torch.zeros(3, 40))


@pytest.mark.parametrize(("rows", "inner"), [(17, 40), (3, 42), (3, 41)])
def test_more_rows_and_unaligned_lines_take_another_form(rows: int, inner: int) -> None:
    inputs = [value("x", "m", "k"), value("w", 40, "k")]
    one = graph(inputs, linear(*inputs))
    (kernels,) = build([one], check=True)
    x, w = torch.randn(rows, inner), torch.randn(40, inner)
    emulator_runtime().take_launched()
    (actual,) = kernels(x, w, check=True)
    assert "skinny_kernel" not in emulator_runtime().take_launched()[0]
    torch.testing.assert_close(actual, x @ w.T)


def test_strided_operands() -> None:
    inputs = [value("x", "m", 40), value("w", 40, 40)]
    (kernels,) = build([graph(inputs, linear(*inputs))], check=True)
    x, w = torch.randn(6, 48)[::2, 4:44], torch.randn(80, 44)[::2, :40]
    emulator_runtime().take_launched()
    (actual,) = kernels(x, w, check=True)
    assert "skinny_kernel" in emulator_runtime().take_launched()[0]
    torch.testing.assert_close(actual, x @ w.T)


def test_a_known_number_of_rows_has_one_kernel_or_none() -> None:
    for rows, kernels in ((1, (2,)), (5, (8,)), (16, (16,)), (17, None)):
        inputs = [value("x", rows, 64), value("w", 64, 64)]
        (step,) = planned(graph(inputs, linear(*inputs))).steps
        assert isinstance(step, ProductPlan)
        assert (step.skinny.rows if step.skinny else None) == kernels
