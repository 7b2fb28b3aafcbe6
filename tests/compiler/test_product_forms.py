"""The forms of a product, in the words of `explain`."""

from __future__ import annotations

from fusegen.compiler.product_forms import TunedLaunch, forms_of, tuned_launches
from fusegen.ir.dtypes import DType
from fusegen.passes import pipeline
from fusegen.plan.cost import SizeHints
from fusegen.plan.kernels.matrix_view import Major
from fusegen.plan.kernels.product import ProductPlan
from fusegen.plan.kernels.product_forms import TileKind
from fusegen.plan.module import plan_module
from fusegen.plan.precision import Precision
from fusegen.plan.preferences import Preferences, ProductShape, TunedTile
from tests.emulated import Size, apply, graph, planned, value


def forms(dtype: DType, *shape: Size, precision: Precision = Precision.HIGHEST) -> tuple[str, ...]:
    """Those of x @ w.T for float32, which TF32 needs, and of x @ w for others."""
    rows, depth, columns = shape
    x, w = value("x", rows, depth, dtype=dtype), value("w", depth, columns, dtype=dtype)
    if dtype is DType.FLOAT32:
        w = apply("transpose", value("w", columns, depth, dtype=dtype), dim0=0, dim1=1)
    right = w.operands[0] if w.operands else w
    (step,) = planned(graph([x, right], apply("matmul", x, w)), None, precision).steps
    assert isinstance(step, ProductPlan)
    return forms_of(step)


def test_16_bit_products_have_every_form() -> None:
    assert forms(DType.BFLOAT16, "m", 4096, 8192) == (
        "Hopper's tensor cores on tiles of 128 rows and 256, 192, 128 or 64 columns, whichever are "
        "done first, with a block for each multiprocessor at a time",
        "at most 8 rows read the right operand once, 32 columns a block",
        "other tensor cores on tiles of 128 x 64",
        "otherwise a shared-memory tile of 64 x 64",
    )


def test_sizes_that_are_known_leave_forms_out() -> None:
    many = forms(DType.BFLOAT16, 4096, 4096, 8192)
    assert many[0] == "Hopper's tensor cores on tiles of 128 x 256"
    assert not any("rows read" in form for form in many)
    odd = forms(DType.BFLOAT16, 4096, 4096, 8191)
    assert odd[0] == many[0]  # results go through shared memory there


def test_float64_products_have_one_form() -> None:
    assert forms(DType.FLOAT64, "m", 4096, 8192) == ("a shared-memory tile of 64 x 64",)


def test_tf32_products_of_few_rows_are_no_tf32_ones() -> None:
    few, tiles, _ = forms(DType.FLOAT32, "m", 4096, 8192, precision=Precision.HIGH)
    assert few == "at most 16 rows read the right operand once, 32 columns a block"
    assert tiles.startswith("Hopper's tensor cores on tiles of 128 rows and 256, 192, 128 or 64")


def test_float32_products_have_a_form_for_wide_ranges() -> None:
    assert forms(DType.FLOAT32, 4096, 4096, 8192) == (
        "Hopper's tensor cores on tiles of 128 x 128",
        "where float16 parts lack range three bfloat16 parts of each element, on tiles of 128 x 64",
        "otherwise a shared-memory tile of 64 x 64",
    )


def test_few_rows_of_tf32_run_on_no_tuned_tiles() -> None:
    shape = ProductShape(DType.FLOAT32, 8192, 4096, Major.DEPTH, Major.DEPTH)
    tuned = Preferences(tuple(TunedTile(shape, most, TileKind(128)) for most in (16, 64)))
    x, w = value("x", "m", 4096), value("w", 8192, 4096)
    model = graph([x, w], apply("matmul", x, apply("transpose", w, dim0=0, dim1=1)))
    plan = plan_module(
        pipeline.run(model), DType.FLOAT32, precision=Precision.HIGH, preferences=tuned
    )
    (step,) = plan.steps
    found = {m: [*tuned_launches(plan, SizeHints({"m": m}))] for m in (16, 17, 64, 65)}
    launches = [[TunedLaunch(step.name, m, TileKind(128))] for m in (17, 64)]
    assert [*found.values()] == [[], *launches, []]
