"""Products that store their elements where a copy in another order of dims has them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import pytest
import torch

from fusegen.compiler.specialisation import Specialisation
from fusegen.frontend import Source
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Node
from fusegen.ir.integers import Integer
from fusegen.plan.kernels.elementwise import ElementwisePlan
from fusegen.plan.kernels.module import ModulePlan
from fusegen.plan.kernels.product import ProductPlan
from fusegen.plan.precision import Precision
from fusegen.runtime.loader import emulator_runtime
from tests.emulated import Kernels, apply, link, planned
from tests.kernels.families import Case, add, gelu
from tests.kernels.test_families import reference
from tests.kernels.test_operand_layouts import heads, matmul, transposed
from tests.kernels.test_shared_depth import on_tensor_cores
from tests.kernels.test_split import HINTS
from tests.kernels.test_tf32 import as_tf32
from tests.ops.examples import torch_dtype
from tests.plan.test_places import ATTENTION
from tests.trained import Trained, compare, trained

# So many products are the longest sum.
DEPTH = 300
SEEDS = (0, 1)


def permuted(x: Node, *order: int) -> Node:
    return apply("permute", x, dims=order)


def together(x: Node) -> Node:
    """(batch, head, time, width) as (batch, time, head * width)."""
    batch, count, time, width = x.shape
    return apply("reshape", permuted(x, 0, 2, 1, 3), shape=(batch, time, count * width))


def apart(x: Node, count: int) -> Node:
    batch, time, width = x.shape
    return apply("reshape", x, shape=(batch, time, Integer.of(count), width // count))


def both(p: Node, v: Node) -> tuple[Node, Node]:
    product = gelu(matmul(p, v))
    return product, permuted(product, 2, 0, 1, 3)


CASES = {
    "heads": Case(
        (("b", 3, "m", "k"), ("b", "k", 96)),
        lambda p, v: together(matmul(p, heads(v, 3))),
        {"b": 2, "m": 70, "k": 24},
    ),
    "known sizes": Case(
        ((2, 3, 70, 24), (2, 24, 48)), lambda p, v: together(matmul(p, heads(v, 3)))
    ),
    "a residual": Case(
        (("b", 3, "m", 24), ("b", 24, 96), ("b", "m", 96)),
        lambda p, v, x: gelu(add(together(matmul(p, heads(v, 3))), x)),
        {"b": 2, "m": 70},
    ),
    "three dims of batches": Case(
        (("a", "b", 3, 20, 16), ("a", "b", 3, 16, 40)),
        lambda x, y: permuted(matmul(x, y), 1, 3, 0, 2, 4),
        {"a": 2, "b": 2},
    ),
    "numbers of heads known at run time": Case(
        (("b", "h", "m", 24), ("b", "h", 24, 40)),
        lambda x, y: together(matmul(x, y)),
        {"b": 2, "h": 3, "m": 19},
    ),
    "columns known at run time": Case(
        (("b", 3, "m", 24), ("b", 3, 24, "n")),
        lambda x, y: together(matmul(x, y)),
        {"b": 2, "m": 19, "n": 40},
    ),
    "a product and its copy": Case((("b", 3, "m", 24), ("b", 3, 24, 40)), both, {"b": 2, "m": 19}),
    "heads that are made": Case(
        (("b", "m", 24), (24, 96)),
        lambda x, w: permuted(apart(matmul(x, w), 3), 0, 2, 1, 3),
        {"b": 2, "m": 70},
    ),
    "rows of a transpose": Case(
        (("b", "m", 3, 24), ("b", "m", 3, 40)),
        lambda x, y: permuted(
            matmul(transposed(permuted(x, 0, 2, 1, 3)), permuted(y, 0, 2, 1, 3)), 2, 0, 1, 3
        ),
        {"b": 2, "m": DEPTH},
    ),
}
ODD = {
    "odd columns": Case(
        (("b", 3, "m", 7), ("b", 3, 7, 13)),
        lambda x, y: together(matmul(x, y)),
        {"b": 2, "m": 19},
    ),
    "a row each": Case(
        (("b", 3, 1, 7), ("b", 3, 7, 14)), lambda x, y: together(matmul(x, y)), {"b": 2}
    ),
}


def products(plan: ModulePlan) -> list[ProductPlan]:
    """The steps, all of which are products."""
    steps = [step for step in plan.steps if isinstance(step, ProductPlan)]
    assert len(steps) == len(plan.steps), "no kernel only copies"
    return steps


@functools.cache
def kernels(
    dtype: DType, precision: Precision = Precision.HIGHEST, *, is_odd: bool = False
) -> dict[str, Kernels]:
    """Those of all cases; float32 ones are planned for sizes for which they are split."""
    cases = ODD if is_odd else CASES
    hints = {"b": 64, "m": 1024, "k": 1024, "n": 1024}
    plans = [planned(case.graph(dtype), hints, precision) for case in cases.values()]
    for plan in plans:
        assert len(products(plan)) == 1
    return dict(zip(cases, link(plans, check=True), strict=True))


def check(
    compiled: Kernels,
    case: Case,
    dtype: DType,
    form: str,
    rounded: Callable[[torch.Tensor], torch.Tensor] = lambda x: x,
) -> None:
    """Right against float64, by a kernel of that form, and the same bits in another order.

    A sum of K products errs by K rounding units of its type at most times the sum of their sizes,
    which of normal numbers is below K; what follows at most doubles that, and storing it costs half
    a unit.
    """
    tensors = [rounded(x) for x in case.tensors(dtype)]
    expected = reference(case, DType.FLOAT64, tensors)
    unit, own_unit = (torch.finfo(torch_dtype(t)).eps for t in (dtype, dtype.compute))
    depth = products(compiled.plan)[0].axes.depths.evaluate(compiled.sizes(tensors))
    allowed = 2 * depth**2 * own_unit
    emulator_runtime().take_launched()
    first = compiled(*tensors, seed=SEEDS[0], check=True)
    launched = emulator_runtime().take_launched()
    assert any(form in name for name in launched), launched
    for actual, exact in zip(first, expected, strict=True):
        error = (actual.double() - exact).abs()
        assert actual.shape == exact.shape
        assert bool((error <= unit * exact.abs() + allowed).all()), error.max()
    for seed in SEEDS[1:]:
        again = compiled(*tensors, seed=seed, check=True)
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


@pytest.fixture
def capability() -> Iterator[None]:
    yield
    emulator_runtime().set_capability(9)


@pytest.mark.parametrize("dtype", [DType.BFLOAT16, DType.FLOAT16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_tensor_cores(name: str, dtype: DType) -> None:
    check(kernels(dtype)[name], CASES[name], dtype, "_tensor_kernel")


@pytest.mark.usefixtures("capability")
@pytest.mark.parametrize(("version", "form"), [(8, "_mma_kernel"), (7, "_kernel<true>")])
@pytest.mark.parametrize("name", CASES)
def test_other_devices(name: str, version: int, form: str) -> None:
    emulator_runtime().set_capability(version)
    check(kernels(DType.BFLOAT16)[name], CASES[name], DType.BFLOAT16, form)


@pytest.mark.parametrize("name", CASES)
def test_float32_as_tf32(name: str) -> None:
    """Of operands that TF32 has exactly; those across the summed dimension take another form."""
    compiled = kernels(DType.FLOAT32, Precision.HIGH)[name]
    check(compiled, CASES[name], DType.FLOAT32, "_kernel", as_tf32)


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.FLOAT64, DType.BFLOAT16], ids=str)
@pytest.mark.parametrize("name", ODD)
def test_odd_sizes(name: str, dtype: DType) -> None:
    check(kernels(dtype, is_odd=True)[name], ODD[name], dtype, "_kernel")


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.FLOAT64], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_wide_types(name: str, dtype: DType) -> None:
    check(kernels(dtype)[name], CASES[name], dtype, "_kernel")


def scores(p: Node, k: Node) -> Node:
    return matmul(p, transposed(k))


def copied(p: Node, k: Node) -> Node:
    return permuted(scores(p, k), 2, 0, 1, 3)


Pair = tuple[torch.Tensor, torch.Tensor]
RANGES: dict[str, Callable[[torch.Tensor, torch.Tensor], Pair]] = {
    "normal": lambda p, k: (p, k),
    "wide lines": lambda p, k: (spread(p), k),
    "few elements": lambda p, k: (p * (torch.arange(DEPTH) % 97 == 0), k),
    "an infinity": lambda p, k: (p.clone().index_fill_(3, torch.tensor(7), float("inf")), k),
}


def spread(x: torch.Tensor) -> torch.Tensor:
    """Elements from 2^-30 to 2^30 times as large."""
    return x * 2.0 ** torch.linspace(-30, 30, x.shape[-1])


@functools.cache
def split_kernels(is_shared: bool) -> tuple[Kernels, Kernels]:
    """float32 products through float16 parts, stored as they are and permuted."""
    shapes = (("b", 3, "m", "k"), ("b", 3, "n", "k"))
    plans = [planned(Case(shapes, body).graph(DType.FLOAT32), HINTS) for body in (scores, copied)]
    for plan in plans:
        (step,) = products(plan)
        assert step.tensor_cores is not None and step.tensor_cores.split is not None
    plans = [on_tensor_cores(plan) for plan in plans] if is_shared else plans
    stored, moved = link(plans, check=True)
    return stored, moved


@pytest.mark.parametrize("is_shared", [False, True], ids=["whole", "shared"])
@pytest.mark.parametrize("name", RANGES)
def test_split_products_are_the_same_bits_elsewhere(name: str, is_shared: bool) -> None:
    """Whichever of the forms computes a tile again."""
    generator = torch.Generator().manual_seed(2)
    shapes = (2, 3, 40, DEPTH), (2, 3, 16, DEPTH)
    p, k = RANGES[name](*(torch.randn(*shape, generator=generator) for shape in shapes))
    stored, moved = split_kernels(is_shared)
    (expected,) = stored(p, k)
    for seed in SEEDS:
        (actual,) = moved(p, k, seed=seed, check=True)
        assert torch.equal(
            actual.nan_to_num(7.25), expected.permute(2, 0, 1, 3).contiguous().nan_to_num(7.25)
        )


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16], ids=str)
def test_a_depth_that_is_shared(dtype: DType) -> None:
    """Outside the tensor cores and on them; a second kernel stores the elements."""
    shapes = ((2, "k", 40), (2, "k", 24))
    bodies = (
        lambda x, y: matmul(transposed(x), y),
        lambda x, y: permuted(matmul(transposed(x), y), 1, 0, 2),
    )
    plans = [planned(Case(shapes, body).graph(dtype), {"k": 4096}) for body in bodies]
    if dtype is DType.BFLOAT16:
        plans = [on_tensor_cores(plan) for plan in plans]
    stored, moved = link(plans, check=True)
    generator = torch.Generator().manual_seed(3)
    given = [
        torch.randn(2, 2 * DEPTH, n, generator=generator).to(torch_dtype(dtype)) for n in (40, 24)
    ]
    (expected,) = stored(*given)
    emulator_runtime().take_launched()
    (actual,) = moved(*given, check=True)
    assert "_sums_kernel" in emulator_runtime().take_launched()[-1]
    assert torch.equal(actual, expected.transpose(0, 1).contiguous())


@pytest.mark.parametrize("rows", [1, 3, 8])
def test_few_rows(rows: int) -> None:
    """A kernel for few rows stores single elements."""
    case = Case(
        (("b", 3, "m", 64), ("b", 3, 64, 40)),
        lambda x, y: together(matmul(x, y)),
        {"b": 2, "m": rows},
    )
    (compiled,) = link([planned(case.graph(DType.FLOAT32))], check=True)
    check(compiled, case, DType.FLOAT32, "skinny_kernel")


@functools.cache
def attention(width: int, dtype: DType) -> Trained:
    chosen = Specialisation.of(Source("model.fuse", ATTENTION), None, {"heads": 3, "width": width})
    return trained([chosen.graph(dtype, training=True)])[0]


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16, DType.FLOAT16], ids=str)
@pytest.mark.parametrize(("width", "time", "keys"), [(16, 40, 24), (7, 5, 13)])
def test_attention_and_its_gradients(width: int, time: int, keys: int, dtype: DType) -> None:
    made = attention(width, dtype)
    generator = torch.Generator().manual_seed(width)
    shapes = (2, time, 3 * width), (2, keys, 3 * width), (2, keys, 3 * width)
    given = [torch.randn(*shape, generator=generator).to(torch_dtype(dtype)) for shape in shapes]
    compare(made, given, {"batch": 2, "time": time, "keys": keys})
    for plan in (made.forward.plan, made.backward.plan):
        assert not any(isinstance(step, ElementwisePlan) for step in plan.steps)
