"""How threads are laid over rows: the forms that were the quickest where they were measured."""

from __future__ import annotations

import pytest

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph
from fusegen.passes import pipeline
from fusegen.passes.differentiation import differentiate
from fusegen.plan.kernels.rows import RowForm, RowMapping, RowPlan
from fusegen.plan.module import plan_module
from tests.emulated import apply, graph, planned, value


def normed(width: int, dtype: DType) -> Graph:
    x = value("x", "n", width, dtype=dtype)
    weight, bias = (value(name, width, dtype=dtype) for name in ("weight", "bias"))
    y = apply("layer_norm", x, weight, bias, normalized_shape=(width,))
    return graph([x, weight, bias], y)


def form_of(step: object) -> RowForm:
    assert isinstance(step, RowPlan)
    return step.forms[0]


BFLOAT16, FLOAT32 = DType.BFLOAT16, DType.FLOAT32
WARP, PART, BLOCK = RowMapping.WARP, RowMapping.PART, RowMapping.BLOCK


# docs/notes/memory-bound.md, short rows.
@pytest.mark.parametrize(
    ("width", "dtype", "expected"),
    [
        (64, BFLOAT16, (WARP, 4, 256, 2)),
        (128, BFLOAT16, (WARP, 4, 256, 4)),
        (1024, BFLOAT16, (WARP, 32, 256, 4)),
        (1280, BFLOAT16, (BLOCK, 64, 64, 3)),
        (1536, BFLOAT16, (BLOCK, 64, 64, 3)),
        (2048, BFLOAT16, (BLOCK, 64, 64, 4)),
        (2560, BFLOAT16, (BLOCK, 128, 128, 3)),
        (3072, BFLOAT16, (BLOCK, 128, 128, 3)),
        (5120, BFLOAT16, (BLOCK, 160, 160, 4)),
        (8192, BFLOAT16, (BLOCK, 256, 256, 4)),
        (12288, BFLOAT16, (BLOCK, 384, 384, 4)),
        (128, FLOAT32, (WARP, 8, 256, 4)),
        (1024, FLOAT32, (WARP, 32, 256, 8)),
        (8192, FLOAT32, (BLOCK, 256, 256, 8)),
        (100, BFLOAT16, (WARP, 32, 256, 1)),  # in vectors of 8 bytes, not measured
    ],
)
def test_a_layer_norm(width: int, dtype: DType, expected: tuple[RowMapping, int, int, int]) -> None:
    (step,) = planned(normed(width, dtype)).steps
    form = form_of(step)
    assert (form.mapping, form.lanes, form.threads, form.steps) == expected


@pytest.mark.parametrize(
    ("width", "dtype", "expected"),
    [
        (64, BFLOAT16, (WARP, 4, 256, 2)),
        (512, BFLOAT16, (WARP, 32, 256, 2)),
        (768, BFLOAT16, (PART, 64, 256, 2)),
        (1024, BFLOAT16, (PART, 64, 256, 2)),
        (1536, BFLOAT16, (PART, 96, 192, 2)),
        (4096, BFLOAT16, (BLOCK, 256, 256, 2)),
        (256, FLOAT32, (WARP, 32, 256, 2)),
        (1024, FLOAT32, (PART, 64, 256, 4)),
    ],
)
def test_its_backward_sums_over_rows_that_come_ahead(
    width: int, dtype: DType, expected: tuple[RowMapping, int, int, int]
) -> None:
    found = differentiate(normed(width, dtype))
    assert found is not None
    first, _ = plan_module(pipeline.run(found.backward), dtype).steps
    form = form_of(first)
    assert (form.mapping, form.lanes, form.threads, form.steps) == expected
    assert form.ahead is not None and form.program.sums
    # What a block leaves does not grow with the rows that it works on at once.
    assert isinstance(first, RowPlan) and first.sum_rows == 1


def test_a_row_of_two_kept_tensors_has_threads_enough() -> None:
    """As in the backward of a softmax, of which a thread keeps half as many columns."""
    x, other = (value(name, "n", 512, dtype=BFLOAT16) for name in ("x", "other"))
    total = apply("sum", apply("mul", x, other), dim=1, keepdim=True)
    (step,) = planned(graph([x, other], apply("mul", x, apply("sub", other, total)))).steps
    assert form_of(step).mapping is WARP and form_of(step).lanes == 32


@pytest.mark.parametrize(
    ("width", "dtype", "is_ahead"),
    [
        (8192, BFLOAT16, False),
        (9216, BFLOAT16, False),
        (10240, BFLOAT16, True),
        (10240, DType.FLOAT16, True),
        (10240, FLOAT32, False),
        (11264, BFLOAT16, False),
        (12288, BFLOAT16, True),
        (16384, BFLOAT16, False),
    ],
)
def test_rows_that_come_ahead_to_two_blocks(width: int, dtype: DType, is_ahead: bool) -> None:
    """docs/notes/memory-bound.md: one row for each of two blocks. In two phases none comes."""
    (step,) = planned(normed(width, dtype)).steps
    form = form_of(step)
    assert (form.ahead is not None) == is_ahead
    if form.ahead is not None:
        assert (form.ahead.rows, form.least_blocks, form.steps) == (1, 2, 4)


@pytest.mark.parametrize("width", [10240, 12288])
def test_rows_that_do_not_gain_by_it_do_not_come_ahead(width: int) -> None:
    """Two phases, and what two blocks have no registers for."""
    x = value("x", "n", width, dtype=BFLOAT16)
    norm = apply("layer_norm", x, normalized_shape=(width,))
    rms = apply("rms_norm", x, normalized_shape=(width,))
    for y in (apply("softmax", x, dim=1), rms, apply("add", norm, x)):
        (step,) = planned(graph([x], y)).steps
        assert form_of(step).ahead is None


@pytest.mark.parametrize(("rows", "is_ahead"), [(264, False), (265, True)])
def test_rows_of_which_no_block_has_two_do_not_come_ahead(rows: int, is_ahead: bool) -> None:
    """Of 132 multiprocessors with two blocks each."""
    x = value("x", rows, 10240, dtype=BFLOAT16)
    (step,) = planned(graph([x], apply("layer_norm", x, normalized_shape=(10240,)))).steps
    assert (form_of(step).ahead is not None) == is_ahead


@pytest.mark.parametrize(
    ("width", "layer_norms", "rms_norms"), [(5120, 5, 7), (9216, 3, 4), (10240, 2, 3), (8192, 4, 4)]
)
def test_rows_in_two_phases_fill_more_of_a_multiprocessor(
    width: int, layer_norms: int, rms_norms: int
) -> None:
    """docs/notes/memory-bound.md, registers where warps are no power of two (8192 has 8)."""
    x = value("x", "n", width, dtype=BFLOAT16)
    rms = planned(graph([x], apply("rms_norm", x, normalized_shape=(width,))))
    (step,) = planned(normed(width, BFLOAT16)).steps
    assert form_of(step).least_blocks == layer_norms
    assert form_of(rms.steps[0]).least_blocks == rms_norms
