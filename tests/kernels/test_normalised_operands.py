"""Products whose operands are normalised as they are loaded, from each row's statistics."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest
import torch

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node
from fusegen.plan.cost import H100
from fusegen.plan.kernels.module import ModulePlan
from fusegen.plan.kernels.product import ProductPlan
from fusegen.plan.kernels.rows import RowPlan
from fusegen.runtime.loader import emulator_runtime
from tests.emulated import Kernels, Size, apply, graph, link, planned, value
from tests.kernels.families import add, gelu, mul, softmax
from tests.kernels.test_operand_layouts import matmul, padded, transposed
from tests.kernels.test_tile_widths import on_tiles
from tests.ops.examples import torch_dtype
from tests.reference import evaluate

# Where nothing counts but bytes, a normalisation's elementwise end is always handed over.
SLOW_MEMORY = replace(H100, bandwidth=1e9)
HINTS = {"m": 4096, "k": 4096, "b": 64}
SIZES = {"m": 131, "k": 134, "b": 3}
DTYPES = (DType.BFLOAT16, DType.FLOAT16)

Body = Callable[..., Node]
Shapes = tuple[tuple[Size, ...], ...]


def layer_norm(x: Node, *affine: Node) -> Node:
    return apply("layer_norm", x, *affine, normalized_shape=tuple(map(_size, x.shape[-1:])))


def rms_norm(x: Node, *affine: Node) -> Node:
    return apply("rms_norm", x, *affine, normalized_shape=tuple(map(_size, x.shape[-1:])))


def _size(size: object) -> int:
    return int(str(size))


# Shapes of the left operand, the right one and what else there is.
NORMALISED: dict[str, tuple[Shapes, Body]] = {
    "layer norm": (
        (("m", 72), (264, 72), (72,), (72,)),
        lambda x, w, weight, bias: matmul(layer_norm(x, weight, bias), transposed(w)),
    ),
    "layer norm alone": (
        (("m", 72), (72, 264)),
        lambda x, w: matmul(layer_norm(x), w),
    ),
    "rms norm": (
        (("m", 72), (264, 72), (72,)),
        lambda x, w, weight: matmul(rms_norm(x, weight), transposed(w)),
    ),
    "softmax": ((("m", 72), (72, 40)), lambda x, w: matmul(softmax(x), w)),
    "softmax of a batch": (
        (("b", 40, 24), ("b", 24, 48)),
        lambda x, y: matmul(softmax(x), y),
    ),
    "a scale for all columns": (
        (("m", 72), (264, 72), (1,)),
        lambda x, w, scale: matmul(mul(layer_norm(x), scale), transposed(w)),
    ),
    "what is normalised made first": (
        (("m", 72), (264, 72), (72,)),
        lambda x, w, scale: matmul(rms_norm(gelu(mul(x, scale))), transposed(w)),
    ),
    "an epilogue": (
        (("m", 72), (264, 72), (264,)),
        lambda x, w, bias: gelu(add(matmul(layer_norm(x), transposed(w)), bias)),
    ),
    "rows of two dims": (
        (("b", 40, 72), (72, 48), (72,), (72,)),
        lambda x, w, weight, bias: matmul(layer_norm(x, weight, bias), w),
    ),
    "a normalised right operand": (
        (("k", 72), (264, 72)),
        lambda x, w: matmul(w, transposed(rms_norm(x))),
    ),
    "groups": (
        (("m", 72), (264, 72)),
        lambda x, w: matmul(apply("group_norm", x, num_groups=3), transposed(w)),
    ),
    "groups that divide neighbours": (
        (("m", 72), (264, 72)),
        lambda x, w: matmul(apply("group_norm", x, num_groups=6), transposed(w)),
    ),
}
# What the plain tile and mma.sync are run with.
SOME = ("layer norm", "softmax of a batch", "a normalised right operand")


def graph_of(name: str, dtype: DType) -> Graph:
    shapes, body = NORMALISED[name]
    inputs = [value(f"x{i}", *shape, dtype=dtype) for i, shape in enumerate(shapes)]
    return graph(inputs, body(*inputs))


def tensors_of(name: str, dtype: DType) -> list[torch.Tensor]:
    """Operands whose mean is not 0, and scales and shifts around 1."""
    shapes, _ = NORMALISED[name]
    generator = torch.Generator().manual_seed(len(name))
    made = []
    for position, shape in enumerate(shapes):
        known = [SIZES[s] if isinstance(s, str) else _size(s) for s in shape]
        drawn = torch.randn(known, generator=generator)
        made.append((drawn if position == 1 else drawn + 1).to(torch_dtype(dtype)))
    return made


def is_handed_over(plan: ModulePlan) -> bool:
    """Whether all that is stored beside the result are values for rows, or for their groups."""
    first, second = plan.steps
    assert isinstance(first, RowPlan) and isinstance(second, ProductPlan)
    return bool(second.prologues) and not any(p.stores for p in first.forms[0].program.phases)


@functools.cache
def plans(dtype: DType) -> dict[str, ModulePlan]:
    return {n: planned(graph_of(n, dtype), HINTS, device=SLOW_MEMORY) for n in NORMALISED}


@functools.cache
def compiled(dtype: DType) -> dict[str, Kernels]:
    """The kernels of all graphs, from one file."""
    return dict(zip(NORMALISED, link([*plans(dtype).values()], check=True), strict=True))


def bound(one: Graph, tensors: Sequence[torch.Tensor], sizes: dict[str, int]) -> torch.Tensor:
    """How far the result may be from float64's: the normalised operand is rounded by half a unit,
    and the result, too. Statistics and sums in float32 take far less."""
    eps = torch.finfo(tensors[0].dtype).eps
    known = dict(zip(one.inputs, (t.double() for t in tensors), strict=True))
    (product,) = (n for n in _all(one) if n.operation.name == "matmul")
    left, right, found, result = evaluate((*product.operands, product, *one.roots), known, sizes)
    assert found.shape == result.shape
    return eps * 1.2 * (left.abs() @ right.abs() + result.abs()) + eps**2


def _all(one: Graph) -> Iterator[Node]:
    stack, seen = [*one.roots], set[Node]()
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            yield node
            stack += node.operands


def check(kernels: Kernels, one: Graph, tensors: Sequence[torch.Tensor], *, form: str) -> None:
    """The result under several orders of threads, against float64; the product's kernel has `form`
    in its name."""
    sizes = kernels.sizes(tensors)
    known = dict(zip(one.inputs, (t.double() for t in tensors), strict=True))
    (expected,) = evaluate(one.roots, known, sizes)
    first = None
    for seed in (0, 1):
        emulator_runtime().take_launched()
        (actual,) = kernels(*tensors, seed=seed, check=True)
        assert form in emulator_runtime().take_launched()[1]
        excess = (actual.double() - expected).abs() - bound(one, tensors, sizes)
        assert excess.max() <= 0, excess.max()
        assert first is None or torch.equal(first, actual)
        first = actual


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.value)
@pytest.mark.parametrize("name", NORMALISED)
def test_normalised_operands(name: str, dtype: DType) -> None:
    assert is_handed_over(plans(dtype)[name])
    kernels = compiled(dtype)[name]
    check(kernels, graph_of(name, dtype), tensors_of(name, dtype), form="tensor_kernel")


@pytest.fixture(params=[7, 8])
def older_card(request: pytest.FixtureRequest) -> Iterator[str]:
    """A card without warpgroup products, and the form that it takes."""
    emulator_runtime().set_capability(request.param)
    yield {7: "_kernel<", 8: "mma_kernel"}[request.param]
    emulator_runtime().set_capability(9)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.value)
@pytest.mark.parametrize("name", SOME)
def test_other_cards(name: str, dtype: DType, older_card: str) -> None:
    kernels = compiled(dtype)[name]
    check(kernels, graph_of(name, dtype), tensors_of(name, dtype), form=older_card)


@pytest.mark.parametrize("name", ["layer norm", "a normalised right operand"])
def test_bits_are_those_of_two_kernels(name: str) -> None:
    """The normalised value is rounded to 16 bits as where it is stored."""
    dtype = DType.BFLOAT16
    apart = planned(graph_of(name, dtype), HINTS)
    assert not apart.steps[1].prologues  # type: ignore[union-attr]
    (kernels,) = link([apart])
    tensors = tensors_of(name, dtype)
    assert torch.equal(kernels(*tensors)[0], compiled(dtype)[name](*tensors)[0])


@pytest.mark.parametrize("rows", [1, 9, 200])
def test_narrow_tiles_and_parts_of_k(rows: int) -> None:
    x, w, weight, bias = (
        value(name, *shape, dtype=DType.BFLOAT16)
        for name, shape in (
            ("x", ("m", 1040)),
            ("w", (72, 1040)),
            ("weight", (1040,)),
            ("bias", (1040,)),
        )
    )
    one = graph([x, w, weight, bias], matmul(layer_norm(x, weight, bias), transposed(w)))
    plan = planned(one, HINTS, device=SLOW_MEMORY)
    assert is_handed_over(plan)
    generator = torch.Generator().manual_seed(rows)
    shapes = ((rows, 1040), (72, 1040), (1040,), (1040,))
    tensors = [(torch.randn(s, generator=generator) + 1).bfloat16() for s in shapes]
    for kernels in link([on_tiles(plan, 64), on_tiles(plan, 64, parts=2)], check=True):
        check(kernels, one, tensors, form="tensor_kernel")


def test_a_sum_that_is_stored_and_normalised() -> None:
    """The product reads the sum, of which the statistics are those of what is stored."""
    dtype = DType.BFLOAT16
    x, y, w = (
        value(n, *s, dtype=dtype) for n, s in (("x", ("m", 72)), ("y", ("m", 72)), ("w", (40, 72)))
    )
    total = add(x, y)
    one = graph([x, y, w], matmul(layer_norm(total), transposed(w)), total)
    plan = planned(one, HINTS, device=SLOW_MEMORY)
    product = plan.steps[1]
    assert isinstance(product, ProductPlan) and product.left.buffer == plan.results[1]
    (kernels,) = link([plan], check=True)
    generator = torch.Generator().manual_seed(0)
    # A mean of 64: deviations are small against what storing rounds off.
    tensors = [(torch.randn(s, generator=generator)).bfloat16() for s in ((131, 72),) * 2]
    tensors = [tensors[0] + 64, tensors[1], torch.randn(40, 72, generator=generator).bfloat16()]
    actual, stored = kernels(*tensors, check=True)
    assert torch.equal(stored, tensors[0] + tensors[1])
    normal = torch.nn.functional.layer_norm(stored.double(), (72,))
    wide = tensors[2].double().T
    eps = torch.finfo(torch.bfloat16).eps
    most = eps * 1.2 * (normal.abs() @ wide.abs() + (normal @ wide).abs())
    assert bool(((actual.double() - normal @ wide).abs() <= most).all())


def test_strided_operands() -> None:
    dtype = DType.BFLOAT16
    one, kernels = graph_of("layer norm", dtype), compiled(dtype)["layer norm"]
    x, w, weight, bias = tensors_of("layer norm", dtype)
    check(kernels, one, [padded(x), padded(w), weight, bias], form="tensor_kernel")
    apart = weight.repeat_interleave(2)[::2]
    check(kernels, one, [x, w, apart, bias], form="_kernel<")


def test_rows_of_one_value() -> None:
    """Their variance is 0, and what is made of zeros beyond the edge does not matter."""
    dtype = DType.BFLOAT16
    one, kernels = graph_of("layer norm", dtype), compiled(dtype)["layer norm"]
    _, w, weight, bias = tensors_of("layer norm", dtype)
    x = torch.full((5, 72), 3.0).bfloat16()
    check(kernels, one, [x, w, weight, bias], form="tensor_kernel")
