"""The forms of a product, in the words of `explain`."""

from __future__ import annotations

from fusegen.compiler.product_forms import forms_of
from fusegen.ir.dtypes import DType
from fusegen.plan.kernels.product import ProductPlan
from tests.emulated import Size, apply, graph, planned, value


def forms(dtype: DType, *shape: Size) -> tuple[str, ...]:
    rows, depth, columns = shape
    x, w = value("x", rows, depth, dtype=dtype), value("w", depth, columns, dtype=dtype)
    (step,) = planned(graph([x, w], apply("matmul", x, w))).steps
    assert isinstance(step, ProductPlan)
    return forms_of(step)


def test_16_bit_products_have_every_form() -> None:
    assert forms(DType.BFLOAT16, "m", 4096, 8192) == (
        "Hopper's tensor cores on tiles of 128 x 64 where those of 256 columns would leave half of "
        "the device idle",
        "at most 8 rows read the right operand once, 32 columns a block",
        "Hopper's tensor cores on tiles of 128 x 256",
        "other tensor cores on tiles of 128 x 64",
        "otherwise a shared-memory tile of 64 x 64",
    )


def test_sizes_that_are_known_leave_forms_out() -> None:
    many = forms(DType.BFLOAT16, 4096, 4096, 8192)
    assert not any("idle" in form or "rows read" in form for form in many)
    odd = forms(DType.BFLOAT16, 4096, 4096, 8191)
    assert not any("Hopper" in form for form in odd)


def test_float64_products_have_one_form() -> None:
    assert forms(DType.FLOAT64, "m", 4096, 8192) == ("a shared-memory tile of 64 x 64",)


def test_float32_products_have_a_form_for_wide_ranges() -> None:
    assert forms(DType.FLOAT32, 4096, 4096, 8192) == (
        "Hopper's tensor cores on tiles of 128 x 128",
        "where float16 parts lack range three bfloat16 parts of each element, on tiles of 128 x 64",
        "otherwise a shared-memory tile of 64 x 64",
    )
