"""float32 products through float16 parts on the tensor cores, and through bfloat16 parts where
their range is too wide: as accurate as float32's, and without its range being lost."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from fusegen.ir.dtypes import DType
from fusegen.plan.kernels.module import ModulePlan
from fusegen.plan.kernels.product import ProductPlan
from tests.emulated import Kernels, apply, link, planned
from tests.kernels.families import Case, gelu, group_norm, linear
from tests.kernels.test_families import check_accuracy
from tests.kernels.test_shared_depth import on_tensor_cores

HINTS = {"m": 4096, "n": 4096, "k": 4096, "b": 8}
K = 520
# Where a few large products dominate, both sums are as good as the order of their roundings: the
# emulated tensor cores add one by one, too.
LUCK = 1.5


def product(transposed: str = "", m: int = 19, n: int = 10) -> Case:
    """A product of any size; the operands named are stored along K first."""

    def body(*operands):  # type: ignore[no-untyped-def]
        x, w = operands
        x = apply("transpose", x, dim0=0, dim1=1) if "x" in transposed else x
        w = w if "w" in transposed else apply("transpose", w, dim0=0, dim1=1)
        return apply("matmul", x, w)

    x = ("k", "m") if "x" in transposed else ("m", "k")
    w = ("k", "n") if "w" in transposed else ("n", "k")
    return Case((x, w), body, {"m": m, "n": n, "k": K}, HINTS)


CASES = {
    "plain": product(),
    "x transposed": product("x"),
    "w transposed": product("w"),
    "both transposed": product("xw"),
    "both transposed, whole accesses": product("xw", m=20, n=12),
    "several tiles": Case(
        (("m", "k"), ("n", "k")),
        linear,
        {"m": 140, "n": 144, "k": 72},
        {"m": 512, "n": 512, "k": 8192},
    ),
    "batches": Case(
        (("b", "m", "k"), ("b", "k", "n")),
        lambda x, w: apply("matmul", x, w),
        {"b": 2, "m": 19, "n": 8, "k": 40},
        HINTS,
    ),
    "heads within lines": Case(
        (("b", 3, "m", "k"), ("b", "k", 3, "n")),
        lambda p, v: apply("matmul", p, apply("transpose", v, dim0=1, dim1=2)),
        {"b": 2, "m": 19, "n": 8, "k": 40},
        HINTS,
    ),
    "a matrix for all batches": Case(
        (("b", "m", "k"), ("n", "k")), linear, {"b": 2, "m": 19, "n": 6, "k": 37}, HINTS
    ),
    "groups": Case(
        (("m", "k"), (64, "k"), (64,), (64,), (64,)),
        lambda x, w, b, scale, shift: gelu(group_norm(4)(linear(x, w, b), scale, shift)),
        {"m": 19, "k": 100},
        {"m": 65536, "k": 4096},
    ),
    "row sums": Case(
        (("m", "k"), ("n", "k"), ("n",)),
        lambda x, w, b: (
            gelu(apply("logsumexp", linear(x, w, b), dim=1, keepdim=True)),
            apply("amax", linear(x, w, b), dim=1),
        ),
        {"m": 19, "n": 130, "k": 60},
        HINTS,
    ),
}


# Epilogues that need all of a tile's elements, whose K is not shared.
ROW_WISE = ("groups", "row sums")


def is_split(plan: ModulePlan) -> bool:
    return any(
        isinstance(s, ProductPlan) and s.tensor_cores is not None and s.tensor_cores.split
        for s in plan.steps
    )


@functools.cache
def kernels(is_shared: bool = False) -> dict[str, Kernels]:
    """Those of each case, or of those whose K can be shared, wherever it has two steps."""
    plans = {name: planned(case.graph(DType.FLOAT32), case.hints) for name, case in CASES.items()}
    assert all(map(is_split, plans.values()))
    if is_shared:
        plans = {name: on_tensor_cores(plan) for name, plan in plans.items() if can_share(plan)}
    return dict(zip(plans, link([*plans.values()], check=True), strict=True))


def can_share(plan: ModulePlan) -> bool:
    return all(isinstance(s, ProductPlan) and s.shared is not None for s in plan.steps)


SHARING = pytest.mark.parametrize("is_shared", [False, True], ids=["alone", "shared"])


@pytest.mark.parametrize(
    ("name", "is_shared"),
    [*((name, False) for name in CASES), *((name, True) for name in CASES if name not in ROW_WISE)],
)
def test_every_order_of_threads(name: str, is_shared: bool) -> None:
    case, compiled = CASES[name], kernels(is_shared)[name]
    tensors = case.tensors(DType.FLOAT32)
    first = compiled(*tensors, check=True)
    check_accuracy(case, DType.FLOAT32, tensors, first)
    for seed in range(1, 4):
        again = compiled(*tensors, seed=seed, check=True)
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True)), f"seed {seed}"


def sequential(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """x times w transposed, every product and every sum rounded to float32."""
    total = torch.zeros(len(x), len(w))
    for depth in range(x.shape[1]):
        total = total + x[:, depth, None] * w[None, :, depth]
    return total


def errors(actual: torch.Tensor, exact: torch.Tensor) -> tuple[float, float]:
    """In the norm, and of the worst element relative to the greatest."""
    difference = (actual.double() - exact).abs()
    return (
        float(difference.norm() / exact.norm()),
        float(difference.max() / exact.abs().max()),
    )


def normal(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(19, K, generator=generator), torch.randn(10, K, generator=generator)


def spread(x: torch.Tensor, bits: float) -> torch.Tensor:
    """The values times powers of 2 that spread evenly over so many bits."""
    random = torch.rand(x.shape, generator=torch.Generator().manual_seed(9))
    return x * torch.exp2((random - 0.5) * bits)


def with_huge(x: torch.Tensor, value: float) -> torch.Tensor:
    """Rows with one huge element each, but for the first."""
    changed = x.clone()
    changed[torch.arange(1, 9), torch.arange(1, 9) * 50] = value
    return changed


def cancelling(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The second half of the sum takes away the first, up to a millionth."""
    half = x.shape[1] // 2
    return (
        torch.cat([x[:, :half], x[:, :half]], 1),
        torch.cat([w[:, :half], -w[:, :half] * (1 + 1e-6)], 1),
    )


def sparse(x: torch.Tensor) -> torch.Tensor:
    changed = torch.zeros_like(x)
    changed[:, ::97] = x[:, ::97]
    return changed


Inputs = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
RANGES: dict[str, Inputs] = {
    "normal": lambda x, w: (x, w),
    "positive": lambda x, w: (x.abs(), w.abs()),
    "rows of 1e30 and columns of 1e-30": lambda x, w: (x * 1e30, w * 1e-30),
    "near the largest": lambda x, w: (x * 1e36, w * 1e-1),
    "near the smallest": lambda x, w: (x * 1e-37, w * 10),
    "subnormal": lambda x, w: (x * 1e-40, w * 1e3),
    "products that are subnormal": lambda x, w: (x * 1e-22, w * 1e-20),
    "wide rows": lambda x, w: (spread(x, 60), w),
    "wide rows and columns": lambda x, w: (spread(x, 60), spread(w, 60)),
    "all of the range": lambda x, w: (spread(x, 250), w),
    "small where the other is large": lambda x, w: (spread(x.abs(), 60), 1 / spread(x, 60)[:10]),
    "one huge element": lambda x, w: (with_huge(x, 1e30), w),
    "one large element": lambda x, w: (with_huge(x, 3e4), w),
    "softmax": lambda x, w: (torch.softmax(8 * x, 1), w),
    "a huge element times zero": lambda x, w: (
        with_huge(x, 1e30),
        torch.where(torch.arange(K) % 50 == 0, 0.0, w),
    ),
    "columns that cancel": cancelling,
    "few elements": lambda x, w: (sparse(x), w),
    "one element": lambda x, w: (torch.eye(19, K), w),
    "zeros": lambda x, w: (x * 0, w),
    "a zero column": lambda x, w: (
        spread(x, 60),
        torch.where(torch.arange(10)[:, None] == 3, 0.0, w),
    ),
}


@SHARING
@pytest.mark.parametrize("name", RANGES)
def test_error_is_at_most_that_of_a_float32_sum(name: str, is_shared: bool) -> None:
    x, w = RANGES[name](*normal(4))
    (actual,) = kernels(is_shared)["plain"](x, w, check=True)
    exact = x.double() @ w.double().T
    if not exact.any():
        assert torch.equal(actual, torch.zeros_like(actual))
        return
    found, peer = errors(actual, exact), errors(sequential(x, w), exact)
    assert all(a <= LUCK * b for a, b in zip(found, peer, strict=True)), (found, peer)


@pytest.mark.parametrize("name", ["x transposed", "both transposed"])
def test_clusters_split_long_lines(name: str) -> None:
    """Three blocks share a depth of 3100 along which neighbours do not lie: the greatest of a line
    and what it loses are those of all three, wherever they stand."""
    generator = torch.Generator().manual_seed(12)
    x, w = (torch.randn(n, 3100, generator=generator) for n in (19, 10))
    x[torch.arange(19), torch.arange(19) * 160] = 3e4  # in every block's part
    x[4], w[3] = spread(x, 60)[4], 0.0
    operands = (x.T.contiguous(), w.T.contiguous() if name.startswith("both") else w)
    (actual,) = kernels()[name](*operands, check=True)
    found = errors(actual, x.double() @ w.double().T)
    peer = errors(sequential(x, w), x.double() @ w.double().T)
    assert all(a <= LUCK * b for a, b in zip(found, peer, strict=True)), (found, peer)
    for seed in range(1, 3):
        assert torch.equal(kernels()[name](*operands, seed=seed)[0], actual)


@SHARING
@pytest.mark.parametrize("name", ["plain", "x transposed", "both transposed"])
def test_lines_of_few_elements_are_those_of_float32(name: str, is_shared: bool) -> None:
    """Rows of x, columns of the result, and one that is both; products of one element are exact."""
    x, w = normal(8)
    few, places = torch.zeros_like(x), torch.arange(19) * 27
    few[torch.arange(19), places] = x[torch.arange(19), places]
    x[3], x[5] = few[3], few[5]
    w[4] = w[4].where(torch.arange(K) == 135, 0.0)
    turned = [name.startswith(("x", "both")), name.startswith("both")]
    operands = [t.T.contiguous() if turn else t for t, turn in zip((x, w), turned, strict=True)]
    (actual,) = kernels(is_shared)[name](*operands, check=True)
    assert torch.equal(actual[3], x[3, 81] * w[:, 81])
    assert torch.equal(actual[5], x[5, 135] * w[:, 135])
    assert torch.equal(actual[:, 4], x[:, 135] * w[4, 135])
    exact = x.double() @ w.double().T
    assert max(errors(actual, exact)) < 1e-6
    for seed in range(1, 3):
        assert torch.equal(kernels(is_shared)[name](*operands, seed=seed)[0], actual)


@SHARING
@pytest.mark.parametrize("name", ["batches", "a matrix for all batches"])
def test_lines_of_few_elements_in_batches(name: str, is_shared: bool) -> None:
    """Every other row of x, and every third line of w, has three elements."""
    case, compiled = CASES[name], kernels(is_shared)[name]
    x, w = (t.clone() for t in case.tensors(DType.FLOAT32))
    kept = torch.arange(x.shape[-1]) % 13 == 5
    x[:, ::2] = torch.where(kept, x[:, ::2], 0.0)
    lines = w if name != "batches" else w.transpose(1, 2)
    lines[..., ::3, :] = torch.where(kept, lines[..., ::3, :], 0.0)
    first = compiled(x, w, check=True)
    check_accuracy(case, DType.FLOAT32, (x, w), first)
    exact = x.double() @ (w.double().T if name != "batches" else w.double())
    few = (first[0].double() - exact)[:, ::2].abs()
    assert few.max() < 2.0**-23 * exact.abs().max()


@SHARING
def test_lines_of_few_elements_meet_what_is_not_a_number(is_shared: bool) -> None:
    x, w = normal(9)
    w[2, 8], w[3, 9], w[6, 300] = float("inf"), float("nan"), float("-inf")
    x = sparse(x)
    (actual,) = kernels(is_shared)["plain"](x, w, check=True)
    expected = x @ w.T
    torch.testing.assert_close(actual, expected, equal_nan=True, rtol=1e-5, atol=1e-5)
    assert expected[:, [2, 3, 6]].isnan().all()


@SHARING
@pytest.mark.parametrize("is_few", [False, True], ids=["many elements", "few elements"])
@pytest.mark.parametrize("second", [0.5, float("inf"), float("nan")])
def test_infinities_where_the_other_lines_are_greatest(
    is_few: bool, second: float, is_shared: bool
) -> None:
    """An infinity times each row's greatest element is infinite, unless what is 0 in the rows meets
    a `second` one or a NaN."""
    x, _ = normal(10)
    x[:, 5], x[:, 7] = 10 * x[:, 5].sign(), 0.0
    x = torch.where(torch.arange(K) % 97 == 5, x, 0.0) if is_few else x
    # Of so many columns the others leave the tile to the parts.
    w = torch.randn(128, K, generator=torch.Generator().manual_seed(11))
    w[2, 5], w[2, 7] = float("inf"), second
    (actual,) = kernels(is_shared)["plain"](x, w, check=True)
    signs = x[:, 5] * float("inf")
    expected = signs if second == 0.5 else torch.full_like(signs, float("nan"))
    assert torch.equal(actual[:, 2].nan_to_num(1.0), expected.nan_to_num(1.0))
    assert actual[:, 3:].isfinite().all()


@SHARING
def test_special_values_are_those_of_float32(is_shared: bool) -> None:
    x, w = normal(5)
    x[1, 7], x[2, 8], x[3, 9] = float("inf"), float("nan"), 3e38
    w[4, 7], w[5, 11], w[6, 9], w[7] = 0.0, float("-inf"), 3e38, 0.0
    (actual,) = kernels(is_shared)["plain"](x, w, check=True)
    expected = sequential(x, w)
    torch.testing.assert_close(actual, expected, equal_nan=True, rtol=1e-5, atol=1e-4)
    finite = expected.isfinite()
    assert not finite.all() and finite[0, :5].all()


# How each of these products is computed: none of the three forms has another's rounding errors.
FORMS: dict[str, Inputs] = {
    "float16 parts": lambda x, w: (with_huge(x, 3e4), w),
    "bfloat16 parts": lambda x, w: (sparse(spread(x, 60)), w),
    "the tile": lambda x, w: (torch.where(torch.arange(K) == 100, float("inf"), x), w),
}


@functools.cache
def tile() -> Kernels:
    """The product on the shared-memory tile alone, whose K is one block's."""
    plan = planned(CASES["plain"].graph(DType.FLOAT32), {"m": 2, "n": 2, "k": 2})
    (step,) = plan.steps
    assert isinstance(step, ProductPlan)
    alone = replace(plan, steps=(replace(step, shared_depth=None),))
    return link([alone], check=False)[0]


@pytest.mark.parametrize("form", FORMS)
def test_form_is_that_of_the_operands_range(form: str) -> None:
    x, w = FORMS[form](*normal(6))
    (actual,), (of_tile,) = kernels()["plain"](x, w), tile()(x, w)
    is_same = (actual == of_tile) | (actual.isnan() & of_tile.isnan())
    assert bool(is_same.all()) == (form == "the tile")
    if form == "bfloat16 parts":  # float16 parts of numbers that they cannot represent are far off
        exact = x.double() @ w.double().T
        assert (actual - exact).abs().max() < 1e-6 * exact.abs().max()


def test_lines_that_cannot_be_read_by_wide_accesses_are_left_to_the_tile() -> None:
    """Where K is no multiple of four, and where neighbours along K are not neighbours in memory."""
    for layout in (lambda t: t[:, :-1], lambda t: t.T.contiguous().T):
        x, w = map(layout, FORMS["bfloat16 parts"](*normal(7)))
        assert torch.equal(kernels()["plain"](x, w)[0], tile()(x, w)[0])


@pytest.mark.parametrize("name", [name for name in CASES if name != "plain"])
def test_wide_ranges_in_every_layout(name: str) -> None:
    """Rows of few elements, in every form's layouts and with every epilogue."""
    case, compiled = CASES[name], kernels()[name]
    tensors = [x.clone() for x in case.tensors(DType.FLOAT32)]
    x = tensors[0]
    along_k = 0 if name.startswith(("x", "both")) else x.dim() - 1
    few = torch.arange(x.shape[along_k]) % 26 == 0
    shape = [-1 if dim == along_k else 1 for dim in range(x.dim())]
    tensors[0] = torch.where(few.view(shape), x, x * 2.0**-40)
    first = compiled(*tensors, check=True)
    check_accuracy(case, DType.FLOAT32, tensors, first)
    for seed in range(1, 3):
        again = compiled(*tensors, seed=seed, check=True)
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True)), f"seed {seed}"


def test_plan_says_what_is_split() -> None:
    (step,) = planned(CASES["plain"].graph(DType.FLOAT32), HINTS).steps
    assert isinstance(step, ProductPlan) and "float16 parts" in step.why
    assert step.cost.tensor_flops == 3 * 2 * 4096**3 and step.cost.plain_tile_flops == 0
    assert step.cost.writes == 4096**2 * (4 + 2 * 4)


@pytest.mark.parametrize(
    "hints", [{"m": 32, "n": 4096, "k": 4096}, {"m": 4096, "n": 4096, "k": 64}]
)
def test_small_products_stay_on_the_tile(hints: dict[str, int]) -> None:
    assert not is_split(planned(CASES["plain"].graph(DType.FLOAT32), hints))


def test_what_rounding_loses_is_kept_where_tiles_are_few_and_deep() -> None:
    def is_compensated(**hints: int) -> bool:
        (step,) = planned(CASES["plain"].graph(DType.FLOAT32), hints).steps
        assert isinstance(step, ProductPlan) and step.tensor_cores and step.tensor_cores.split
        return step.tensor_cores.split.is_compensated

    assert is_compensated(m=600, n=720, k=8192)
    assert not is_compensated(m=600, n=720, k=2048)
    assert not is_compensated(m=1024, n=8192, k=8192)
