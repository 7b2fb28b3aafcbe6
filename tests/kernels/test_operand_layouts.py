"""Products on the tensor cores whose operands lie in memory in every way, and those that do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
import torch

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node
from fusegen.ir.integers import Integer
from fusegen.runtime.loader import emulator_runtime
from tests.emulated import Kernels, Size, apply, build, graph, value
from tests.kernels.families import add, gelu, group_norm
from tests.reference import evaluate

SEEDS = (0, 1, 2)
# What the plain form's kernels have in their names alone.
PLAIN = "matmul_kernel<"


def half(name: str, *shape: Size) -> Node:
    return value(name, *shape, dtype=DType.BFLOAT16)


def transposed(x: Node) -> Node:
    return apply("transpose", x, dim0=-2, dim1=-1)


def matmul(left: Node, right: Node) -> Node:
    return apply("matmul", left, right)


def heads(x: Node, count: int) -> Node:
    """(batch, time, count * width) as (batch, count, time, width)."""
    batch, time, width = x.shape
    apart = (batch, time, Integer.of(count), width // count)
    return apply("transpose", apply("reshape", x, shape=apart), dim0=1, dim1=2)


def normal(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator).to(dtype)


def check(kernels: Kernels, one: Graph, tensors: Sequence[torch.Tensor], *, form: str) -> None:
    """The result under several orders of threads, against float64; the first kernel's name has
    `form` in it.

    Products of bfloat16 numbers are exact in float32, and a sum of K of them errs by K rounding
    units of float32 at most, which is far below the half unit of bfloat16 that storing it costs.
    """
    wide = [t.double() for t in tensors]
    sizes = kernels.sizes(tensors)
    (expected,) = evaluate(one.roots, dict(zip(one.inputs, wide, strict=True)), sizes)
    eps = torch.finfo(tensors[0].dtype).eps
    first = None
    for seed in SEEDS:
        emulator_runtime().take_launched()
        (actual,) = kernels(*tensors, seed=seed, check=True)
        assert form in emulator_runtime().take_launched()[0]
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
    "nine rows": ((9, 72), (72, 40), matmul),
    "batches": (("b", 40, 24), ("b", 24, 48), matmul),
    "batches, x.T @ y": (("b", 24, 40), ("b", 24, 48), lambda x, y: matmul(transposed(x), y)),
    "a matrix for all batches": (("b", 40, 24), (1, 24, 48), matmul),
    "heads of lines": (
        ("b", 40, 72),
        ("b", 136, 72),
        lambda q, k: matmul(heads(q, 3), transposed(heads(k, 3))),
    ),
    "heads of the right operand": (
        ("b", 3, 40, 136),
        ("b", 136, 72),
        lambda p, v: matmul(p, heads(v, 3)),
    ),
    "heads of both, x.T @ y": (
        ("b", 136, 72),
        ("b", 136, 144),
        lambda x, y: matmul(transposed(heads(x, 3)), heads(y, 3)),
    ),
    "a matrix for several heads": (("b", 2, 3, 40, 24), ("b", 2, 1, 24, 48), matmul),
    "batches of the last dim alone": (("b", 3, 40, 24), (3, 24, 48), matmul),
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
    check(kernels, one, [normal(*shape_of(left)), normal(*shape_of(right))], form="tensor_kernel")


def padded(x: torch.Tensor) -> torch.Tensor:
    """Rows with eight unused elements behind each."""
    wide = torch.full((*x.shape[:-1], x.shape[-1] + 8), float("nan"), dtype=x.dtype)
    wide[..., :-8] = x
    return wide[..., :-8]


def sliced(x: torch.Tensor) -> torch.Tensor:
    """Every other of twice as many rows, from 16 bytes behind an aligned address."""
    wide = torch.full((*x.shape[:-2], 2 * x.shape[-2], x.shape[-1] + 16), float("nan"))
    view = wide.to(x.dtype)[..., ::2, 8:-8]
    return view.copy_(x)


def batches_inside(x: torch.Tensor) -> torch.Tensor:
    """The batches between rows and columns in memory."""
    return x.transpose(0, 1).contiguous().transpose(0, 1) if x.dim() == 3 else x


def repeated(x: torch.Tensor) -> torch.Tensor:
    """The first batch for all, by a stride of 0."""
    return x[:1].expand_as(x) if x.dim() == 3 else x


@pytest.mark.parametrize("layout", [padded, sliced, batches_inside, repeated])
@pytest.mark.parametrize("name", ["x @ w", "dy.T @ x", "batches", "batches, x.T @ y"])
def test_strides_known_at_run_time(
    name: str, layout: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    left, right, body = PRODUCTS[name]
    inputs = [half("left", *left), half("right", *right)]
    one = graph(inputs, body(*inputs))
    (kernels,) = build([one], check=True)
    tensors = [layout(normal(*shape_of(shape))) for shape in (left, right)]
    check(kernels, one, tensors, form="tensor_kernel")


def reversed_in_memory(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(-2, -1).contiguous().transpose(-2, -1)


def unaligned(x: torch.Tensor) -> torch.Tensor:
    return torch.empty(x.numel() + 1, dtype=x.dtype)[1:].view(x.shape).copy_(x)


def odd_line_stride(x: torch.Tensor) -> torch.Tensor:
    wide = torch.empty((*x.shape[:-1], x.shape[-1] + 3), dtype=x.dtype)
    return wide[..., : x.shape[-1]].copy_(x)


def heads_inside(x: torch.Tensor) -> torch.Tensor:
    """(batch, head, time, width) as it lies when time comes before heads."""
    return x.transpose(1, 2).contiguous().transpose(1, 2)


@pytest.mark.parametrize("is_transposed", [False, True])
def test_heads_that_are_handed_in_as_batches(is_transposed: bool) -> None:
    left = half("left", "b", "h", 40, 24)
    right = half("right", "b", "h", *((48, 24) if is_transposed else (24, 48)))
    one = graph([left, right], matmul(left, transposed(right) if is_transposed else right))
    (kernels,) = build([one], check=True)
    tensors = [normal(3, 2, 40, 24), normal(3, 2, *((48, 24) if is_transposed else (24, 48)))]
    for layout in (heads_inside, sliced):
        check(kernels, one, [layout(x) for x in tensors], form="tensor_kernel")


@pytest.mark.parametrize("layout", [reversed_in_memory, unaligned, odd_line_stride])
def test_other_layouts_take_the_plain_form(
    layout: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    left, right, body = PRODUCTS["x @ w"]
    inputs = [half("left", *left), half("right", *right)]
    one = graph(inputs, body(*inputs))
    (kernels,) = build([one], check=True)
    tensors = [layout(normal(*shape_of(shape))) for shape in (left, right)]
    check(kernels, one, tensors, form=PLAIN)


def test_rows_of_two_dims_that_do_not_lie_evenly_take_the_plain_form() -> None:
    left, right, body = PRODUCTS["rows of two dims"]
    inputs = [half("left", *left), half("right", *right)]
    one = graph(inputs, body(*inputs))
    (kernels,) = build([one], check=True)
    x, w = normal(*shape_of(left)), normal(*shape_of(right))
    check(kernels, one, [padded(x), w], form="tensor_kernel")
    check(kernels, one, [batches_inside(x), w], form=PLAIN)


def test_no_depth_gives_zeros() -> None:
    inputs = [half("left", 40, "k"), half("right", "k", 24)]
    one = graph(inputs, matmul(*inputs))
    (kernels,) = build([one], check=True)
    check(kernels, one, [normal(40, 0), normal(0, 24)], form=PLAIN)


def test_float16() -> None:
    inputs = [value(n, 24, 72, dtype=DType.FLOAT16) for n in ("left", "right")]
    one = graph(inputs, matmul(transposed(inputs[0]), inputs[1]))
    (kernels,) = build([one], check=True)
    tensors = [normal(24, 72, dtype=torch.float16), normal(24, 72, dtype=torch.float16) * 2]
    check(kernels, one, tensors, form="tensor_kernel")


@pytest.fixture
def ampere() -> Iterator[None]:
    """Launchers see a device without warpgroup products."""
    emulator_runtime().set_capability(8)
    yield
    emulator_runtime().set_capability(9)


@pytest.mark.usefixtures("ampere")
@pytest.mark.parametrize("name", PRODUCTS)
def test_other_tensor_cores(name: str) -> None:
    left, right, body = PRODUCTS[name]
    inputs = [half("left", *left), half("right", *right)]
    one = graph(inputs, body(*inputs))
    (kernels,) = build([one], check=True)
    tensors = [normal(*shape_of(left)), normal(*shape_of(right))]
    check(kernels, one, tensors, form="mma_kernel")


@pytest.mark.usefixtures("ampere")
@pytest.mark.parametrize("layout", [padded, sliced, batches_inside, repeated])
def test_other_tensor_cores_with_strides(
    layout: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    left, right, body = PRODUCTS["batches, x.T @ y"]
    inputs = [half("left", *left), half("right", *right)]
    one = graph(inputs, body(*inputs))
    (kernels,) = build([one], check=True)
    tensors = [layout(normal(*shape_of(shape))) for shape in (left, right)]
    check(kernels, one, tensors, form="mma_kernel")


@pytest.mark.usefixtures("ampere")
def test_other_tensor_cores_in_float16_with_odd_sizes() -> None:
    inputs = [value(n, *s, dtype=DType.FLOAT16) for n, s in (("x", ("m", 40)), ("w", (67, 40)))]
    one = graph(inputs, matmul(inputs[0], transposed(inputs[1])))
    (kernels,) = build([one], check=True)
    tensors = [normal(9, 40, dtype=torch.float16), normal(67, 40, dtype=torch.float16)]
    check(kernels, one, tensors, form="mma_kernel")
    strided = [padded(normal(9, 43, dtype=torch.float16))[:, :40], tensors[1]]
    check(kernels, one, strided, form=PLAIN)


def test_a_device_before_tensor_cores_takes_the_plain_form() -> None:
    emulator_runtime().set_capability(7)
    try:
        left, right, body = PRODUCTS["x @ w"]
        inputs = [half("left", *left), half("right", *right)]
        one = graph(inputs, body(*inputs))
        (kernels,) = build([one], check=True)
        tensors = [normal(*shape_of(left)), normal(*shape_of(right))]
        check(kernels, one, tensors, form=PLAIN)
    finally:
        emulator_runtime().set_capability(9)
