"""float32 products on the GPU at full precision: for all ranges of inputs as accurate as cuBLAS."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import fusegen
from tests.kernels.test_split import errors, spread, with_huge

# Large enough for the tensor cores' forms, and no whole tiles. cuBLAS splits these K, so that its
# sums are short; ours keep what rounding them loses from some K on.
ROWS, COLUMNS, DEPTHS = 600, 720, (512, 2048, 8192)
SOURCE = f"""
model Product(k, n={COLUMNS}):
    input x: [batch, k]

    fc = Linear(k, n, bias=False)

    return x |> fc
"""
# Where a few large products dominate, the order of roundings decides.
LUCK = 1.25
# More where one sum decides, in the norm or in the worst element: 1.26 and 1.27 on H200s, of
# errors of two or three unit roundoffs.
LUCK_OF_ONE_SUM = {"all of the range": (1.5, LUCK), "wide rows and columns": (LUCK, 1.5)}

Inputs = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
RANGES: dict[str, Inputs] = {
    "normal": lambda x, w: (x, w),
    "positive": lambda x, w: (x.abs(), w.abs()),
    "near the largest": lambda x, w: (x * 1e36, w * 1e-1),
    "near the smallest": lambda x, w: (x * 1e-37, w * 10),
    "subnormal": lambda x, w: (x * 1e-40, w * 1e3),
    "wide rows": lambda x, w: (spread(x, 60), w),
    "wide rows and columns": lambda x, w: (spread(x, 60), spread(w, 60)),
    "all of the range": lambda x, w: (spread(x, 240), w),  # more would overflow
    "one huge element": lambda x, w: (with_huge(x, 1e30), w),
    "softmax": lambda x, w: (torch.softmax(8 * x, 1), w),
    "a huge element times zero": lambda x, w: (
        with_huge(x, 1e30),
        torch.where(torch.arange(w.shape[1]) % 50 == 0, 0.0, w),
    ),
    "few elements": lambda x, w: (torch.where(torch.arange(x.shape[1]) % 97 == 0, x, 0.0), w),
    "one element": lambda x, w: (torch.eye(*x.shape), w),
}


@pytest.fixture(scope="module", params=DEPTHS)
def product(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> nn.Module:
    path = tmp_path_factory.mktemp("product") / "product.fuse"
    path.write_text(SOURCE, encoding="utf-8")
    return fusegen.load(path)(k=request.param).cuda()


def operands(product: nn.Module) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(4)
    depth = product.get_parameter("fc.weight").shape[1]
    return (
        torch.randn(ROWS, depth, generator=generator),
        torch.randn(COLUMNS, depth, generator=generator),
    )


def run(product: nn.Module, x: Tensor, w: Tensor) -> Tensor:
    with torch.no_grad():
        product.get_parameter("fc.weight").copy_(w)
        return product(x)


@pytest.mark.gpu
@pytest.mark.parametrize("name", RANGES)
def test_error_is_at_most_cublas(product: nn.Module, name: str) -> None:
    x, w = (operand.cuda() for operand in RANGES[name](*operands(product)))
    actual, exact = run(product, x, w), x.double() @ w.double().T
    found, peer = errors(actual, exact), errors(x @ w.T, exact)
    luck = LUCK_OF_ONE_SUM.get(name, (LUCK, LUCK))
    assert all(a <= f * b for f, a, b in zip(luck, found, peer, strict=True)), (found, peer)
    assert torch.equal(actual, run(product, x, w))


@pytest.mark.gpu
def test_special_values_are_those_of_cublas(product: nn.Module) -> None:
    x, w = (operand.cuda() for operand in operands(product))
    x[1, 7], x[2, 8], w[5, 11] = float("inf"), float("nan"), float("-inf")
    actual, expected = run(product, x, w), x @ w.T
    torch.testing.assert_close(actual, expected, equal_nan=True, rtol=1e-5, atol=1e-3)
