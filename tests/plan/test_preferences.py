"""Tuned tiles in the plan: for the rows and products they are for, and no others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fusegen.compiler.product_forms import forms_of
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph
from fusegen.passes import pipeline
from fusegen.plan.kernels.matrix_view import Major
from fusegen.plan.kernels.module import ModulePlan
from fusegen.plan.kernels.product import ProductPlan, TunedRows
from fusegen.plan.kernels.product_forms import TileKind
from fusegen.plan.module import plan_module
from fusegen.plan.preferences import (
    UNTUNED,
    Preferences,
    ProductShape,
    TunedTile,
    bucket_of,
)
from tests.emulated import Size, apply, cuda_text, graph, value
from tests.kernels.families import group_norm

SHAPE = ProductShape(DType.BFLOAT16, 128256, 4096, Major.DEPTH, Major.DEPTH)

OPERANDS: tuple[tuple[str, tuple[Size, Size]], ...] = (("x", ("m", 4096)), ("w", (4096, 4096)))


def product(rows: Size = "m", columns: Size = 128256, depth: Size = 4096) -> Graph:
    """x @ w.T, for which the planner knows of no better tiles than wide ones."""
    x = value("x", rows, depth, dtype=DType.BFLOAT16)
    w = value("w", columns, depth, dtype=DType.BFLOAT16)
    return graph([x, w], apply("matmul", x, apply("transpose", w, dim0=0, dim1=1)))


def plan(one: Graph, preferences: Preferences) -> ModulePlan:
    return plan_module(pipeline.run(one), DType.BFLOAT16, preferences=preferences)


def step(one: Graph, preferences: Preferences) -> ProductPlan:
    (found,) = plan(one, preferences).steps
    assert isinstance(found, ProductPlan) and found.tensor_cores is not None
    return found


def kinds(found: ProductPlan) -> list[TileKind]:
    assert found.tensor_cores is not None
    return [form.kind for form in (found.tensor_cores, *found.alternatives)]


def columns(found: ProductPlan) -> list[int]:
    assert all(kind.parts == 1 for kind in kinds(found))
    return [kind.columns for kind in kinds(found)]


def tuned(*choices: tuple[int, int], shape: ProductShape = SHAPE) -> Preferences:
    return Preferences(tuple(TunedTile(shape, most, TileKind(tile)) for most, tile in choices))


@pytest.mark.parametrize(
    ("rows", "bucket"), [(0, 16), (16, 16), (17, 64), (300, 384), (1025, 2048), (4097, None)]
)
def test_buckets(rows: int, bucket: int | None) -> None:
    assert bucket_of(rows) == bucket


def test_neighbouring_buckets_that_are_alike_are_one_range() -> None:
    found = tuned((384, 128), (16, 64), (64, 64), (512, 128), (1024, 256)).rows(SHAPE)
    assert found == (
        TunedRows(1, 64, TileKind(64)),
        TunedRows(257, 512, TileKind(128)),
        TunedRows(897, 1024, TileKind(256)),
    )


def test_tuned_tiles_get_a_kernel_and_are_told() -> None:
    assert columns(step(product(), UNTUNED)) == [256]
    found = step(product(), tuned((16, 64), (64, 128)))
    assert columns(found) == [256, 128, 64]
    assert found.tuned == (TunedRows(1, 16, TileKind(64)), TunedRows(17, 64, TileKind(128)))
    assert forms_of(found)[0] == (
        "Hopper's tensor cores on tiles of 128 rows and 256, 128 or 64 columns, as tuned on this "
        "card for some numbers of rows (64 for 1 to 16, 128 for 17 to 64), else whichever are done "
        "first, with a block for each multiprocessor at a time"
    )


def test_the_text_to_build_differs() -> None:
    texts = {
        cuda_text(plan(product(), preferences))
        for preferences in (UNTUNED, tuned((16, 64)), tuned((64, 64)), tuned((16, 128)))
    }
    assert len(texts) == 4


@pytest.mark.parametrize(
    "other",
    [
        replace(SHAPE, dtype=DType.FLOAT16),
        replace(SHAPE, columns=128),
        replace(SHAPE, depths=128),
        replace(SHAPE, right=Major.LINE),
    ],
)
def test_other_products_are_planned_as_ever(other: ProductShape) -> None:
    found = step(product(), tuned((16, 64), shape=other))
    assert columns(found) == [256] and found.tuned == ()


def test_products_whose_sizes_are_open_are_planned_as_ever() -> None:
    assert step(product(depth="k"), tuned((16, 64))).tuned == ()


def test_tiles_that_an_epilogue_cannot_have_are_passed_over() -> None:
    one = product(columns=8192)
    groups = graph(one.inputs, group_norm(128)(one.roots[0]))
    shape = replace(SHAPE, columns=8192)
    found = step(groups, tuned((16, 32), (64, 128), shape=shape))
    assert found.tuned == (TunedRows(17, 64, TileKind(128)),) and 32 not in columns(found)


def test_only_one_width() -> None:
    found = step(product(), Preferences(only=TileKind(192)))
    assert columns(found) == [192] and found.tuned == ()


def test_only_a_width_that_does_not_exist_leaves_all() -> None:
    """Copies across the depth bring 64 columns at once."""
    x, w = (value(name, *shape, dtype=DType.BFLOAT16) for name, shape in OPERANDS)
    one = graph([x, w], apply("matmul", x, w))
    assert kinds(step(one, Preferences(only=TileKind(32)))) == kinds(step(one, UNTUNED))


def test_two_blocks_share_a_tile_where_there_are_few() -> None:
    """64 tiles of 64 columns leave half of an H100's multiprocessors idle."""
    assert TileKind(64, 2) in kinds(step(product(columns=4096), UNTUNED))
    assert TileKind(64, 2) not in kinds(step(product(columns=8192), UNTUNED))
    assert TileKind(64, 2) not in kinds(step(product(columns=4096, depth=256), UNTUNED))


def test_other_parts_of_k_are_for_what_was_tuned() -> None:
    found = step(product(), Preferences((TunedTile(SHAPE, 16, TileKind(128, 4)),)))
    assert found.tensor_cores is not None and found.tensor_cores.kind == TileKind(256)
    assert [form.kind for form in found.alternatives] == [TileKind(128, 4)]
    assert "256 or 128 (K in 4 parts) columns" in forms_of(found)[0]


def test_a_part_has_some_steps() -> None:
    """512 are 8 steps, 1024 two parts of 8."""
    for depth, parts in ((512, {1}), (1024, {1, 2}), (4096, {1, 2, 4})):
        one = product(depth=depth)
        kinds = [TileKind(128, parts) for parts in (1, 2, 4)]
        forms = [step(one, Preferences(only=kind)).tensor_cores for kind in kinds]
        assert {form.parts for form in forms if form is not None and form.columns == 128} == parts


def test_parts_of_a_depth_that_is_not_known() -> None:
    """The launcher takes them from 1024 on."""
    found = step(product(depth="k"), Preferences(only=TileKind(128, 2))).tensor_cores
    assert found is not None and found.kind == TileKind(128, 2)
    assert found.wave is not None and found.wave.least_depths == 1024
