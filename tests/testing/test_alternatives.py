"""Which results of a product's forms are right: as near as its sums' lengths and dtypes say."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fusegen.errors import FusegenError
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph
from fusegen.testing.alternatives import what_is_wrong
from tests.emulated import apply, graph, value

ROWS, DEPTH, COLUMNS = 24, 2048, 64
SIZES = {"n": ROWS}


def model(dtype: DType = DType.BFLOAT16) -> Graph:
    """x @ w.T, its gelu, and the mean of that over a row."""
    x, w = value("x", "n", DEPTH, dtype=dtype), value("w", COLUMNS, DEPTH, dtype=dtype)
    y = apply("gelu", apply("matmul", x, apply("transpose", w, dim0=0, dim1=1)))
    return graph([x, w], y, apply("mean", y, dim=1))


def drawn() -> list[Tensor]:
    generator = torch.Generator().manual_seed(5)
    shapes = (ROWS, DEPTH), (COLUMNS, DEPTH)
    x, w = (torch.randn(shape, generator=generator).bfloat16() for shape in shapes)
    return [x, w * DEPTH**-0.5]


def in_parts(x: Tensor, w: Tensor, parts: int) -> list[Tensor]:
    """The model with the product's K in parts, each of which is summed in float32."""
    pairs = zip(x.float().chunk(parts, 1), w.float().chunk(parts, 1), strict=True)
    sums = [left @ right.T for left, right in pairs]
    y = F.gelu(torch.stack(sums).sum(0)).bfloat16()
    return [y, y.float().mean(1).bfloat16()]


def eager(x: Tensor, w: Tensor) -> list[Tensor]:
    y = F.gelu(x @ w.T)
    return [y, y.mean(1)]


def judged(*alternatives: list[Tensor]) -> tuple[str | None, ...]:
    tensors = drawn()
    return what_is_wrong(model(), tensors, eager(*tensors), alternatives, SIZES)


def test_parts_of_k_in_any_number_are_right() -> None:
    tensors = drawn()
    assert judged(*(in_parts(*tensors, parts) for parts in (1, 2, 4, 64))) == (None,) * 4


@pytest.mark.parametrize(
    ("wrong", "count"),
    [
        pytest.param(lambda y: y.index_fill(1, torch.tensor([7]), 0.0), ROWS, id="a column is 0"),
        pytest.param(lambda y: torch.where(y == y.max(), y * 1.25, y), 1, id="one element"),
        pytest.param(lambda y: y.index_fill(0, torch.tensor([3]), torch.nan), COLUMNS, id="NaN"),
        pytest.param(lambda y: torch.where(y == y.max(), torch.inf, y), 1, id="one infinity"),
    ],
)
def test_wrong_elements_are_found_however_few(wrong: object, count: int) -> None:
    """One element that is a quarter off is 1% of the norm."""
    right = in_parts(*drawn(), 2)
    assert callable(wrong)
    found = judged(right, [wrong(right[0]), right[1]])
    assert found[0] is None
    assert found[1] is not None
    assert found[1].startswith(f"y0: {count} of {ROWS * COLUMNS} elements are wrong; at [")


def test_a_depth_that_is_left_out_is_found() -> None:
    """The last 4 of 2048, which are less than 5% of the results' norm."""
    x, w = drawn()
    right, short = in_parts(x, w, 1), in_parts(x[:, :-4], w[:, :-4], 1)
    off = (short[0].double() - right[0].double()).norm() / right[0].double().norm()
    (found,) = judged(short)
    assert 0 < off < 0.05
    assert found is not None and "elements are wrong" in found


def test_results_of_another_type_are_wrong() -> None:
    right = in_parts(*drawn(), 1)
    assert judged([right[0].float(), right[1]]) == ("y0 is torch.float32, not torch.bfloat16; ",)


def test_longer_sums_may_err_more() -> None:
    """float32 sums of ones and rests: what is allowed grows with the root of their length."""
    allowed = []
    for depth in (256, 4096):
        x = value("x", "n", depth)
        one = graph([x], apply("matmul", x, apply("transpose", x, dim0=0, dim1=1)))
        given = torch.randn(8, depth, generator=torch.Generator().manual_seed(1))
        right = given @ given.T
        norm = given.abs().double() @ given.abs().double().T
        off = torch.finfo(torch.float32).eps * norm * depth**0.5
        far, near = ((right.double() + scale * off).float() for scale in (30.0, 0.5))
        allowed += what_is_wrong(one, [given], [right], [[near], [far]], {"n": 8})
    assert [wrong is None for wrong in allowed] == [True, False, True, False]


def test_what_pytorch_has_no_answer_for_is_refused() -> None:
    x = value("x", "n", dtype=DType.INT64)
    divided = graph([x], apply("floor_divide", x, apply("sub", x, x)))
    given = torch.ones(3, dtype=torch.int64)
    with pytest.raises(FusegenError, match="nothing to compare the results with"):
        what_is_wrong(divided, [given], [given], [[given]], {"n": 3})


def test_it_does_without_hypothesis() -> None:
    """Which is no requirement of fusegen's, and `fusegen tune` is none of its tests."""
    program = (
        "import sys; sys.modules['hypothesis'] = None\n"
        "import fusegen.testing.alternatives\n"
        "try: fusegen.testing.verify\n"
        "except ImportError as error: print(error)\n"
        "print(hasattr(fusegen.testing, 'nothing'))\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "hypothesis" in answer.stdout.splitlines()[0]
    assert answer.stdout.splitlines()[1] == "False"
