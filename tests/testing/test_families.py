"""The models of `fusegen.testing.families` go through every kind of kernel."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fusegen.compiler.variant import make_variant, variant_keys
from fusegen.ir.dtypes import DType
from fusegen.passes import pipeline
from fusegen.plan.kernels.attention import AttentionPlan
from fusegen.plan.kernels.back_to_back import BackToBackPlan
from fusegen.plan.kernels.convolution import ConvolutionPlan
from fusegen.plan.kernels.elementwise import ElementwisePlan
from fusegen.plan.kernels.epilogues import ElementEpilogue, GroupEpilogue, PartialEpilogue
from fusegen.plan.kernels.library import LibraryPlan
from fusegen.plan.kernels.matrix_view import WindowView
from fusegen.plan.kernels.module import Step, in_place_of
from fusegen.plan.kernels.product import ProductPlan
from fusegen.plan.kernels.product_forms import Exchange
from fusegen.plan.kernels.rows import RowMapping, RowPlan
from fusegen.plan.module import plan_module
from fusegen.plan.precision import Precision
from fusegen.plan.tensor_cores import STAGES
from fusegen.testing.families import FAMILIES, Family


def kinds(step: Step) -> Iterator[object]:
    """What a step says of the kernels it becomes."""
    yield type(step)
    if in_place_of(step):
        yield "in place"
    if isinstance(step, RowPlan):
        yield from (form.mapping for form in step.forms)
        yield from (("loops", form.mapping) for form in step.forms if form.most_columns is None)
        yield step.parts > 1
    if isinstance(step, ConvolutionPlan):
        yield from ("planes",) * (step.window.kernel[0] > 1)
        yield from ("spread",) * step.window.is_spread
    if isinstance(step, ElementwisePlan) and step.tiles:
        yield "turned"
    if isinstance(step, ProductPlan):
        yield type(step.epilogue)
        forms = ("tensor_cores", "skinny", "mma")
        yield from (form for form in forms if getattr(step, form))
        if step.tensor_cores and not step.tensor_cores.split:
            yield from (form.columns for form in (step.tensor_cores, *step.alternatives))
        if step.tensor_cores and step.tensor_cores.split:
            yield "split"
        if step.tensor_cores and step.tensor_cores.early:
            yield "early loads"
        views = [v for form in step.tensor_forms for v in (form.left, form.right)]
        yield from ("windows",) * any(isinstance(view, WindowView) for view in views)
        yield from ("columns apart",) * any(form.is_beside for form in step.tensor_forms)
        yield from (form.exchange for form in step.tensor_forms)
        yield from ("skipped",) * (step.skipped is not None)


@pytest.fixture(scope="module")
def seen() -> set[object]:
    found: set[object] = set()
    for family in FAMILIES:
        chosen = family.subject("emulate").chosen
        for key in variant_keys(chosen, [DType.FLOAT32, DType.BFLOAT16], [Precision.HIGHEST]):
            plan = plan_module(pipeline.run(key.graph(chosen)), key.dtype)
            for step in plan.steps:
                found.update(kinds(step))
    return found


def test_every_kind_of_kernel_is_there(seen: set[object]) -> None:
    plans = {
        AttentionPlan,
        BackToBackPlan,
        ConvolutionPlan,
        ElementwisePlan,
        LibraryPlan,
        ProductPlan,
        RowPlan,
    }
    epilogues = {ElementEpilogue, GroupEpilogue, PartialEpilogue}
    # The narrowest tiles are for products too large for a test; test_tile_widths.py has them.
    forms = {"tensor_cores", "skinny", "mma", "split", "early loads", *sorted(STAGES)[1:]}
    rows = {*RowMapping, True, ("loops", RowMapping.BLOCK), ("loops", RowMapping.OUTER)}
    convolutions = {"planes", "spread", "windows", "columns apart", "skipped"}
    others = {*Exchange, "in place", "turned"}
    assert seen >= plans | epilogues | forms | rows | convolutions | others


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_their_text_can_be_written(family: Family) -> None:
    chosen = family.subject("emulate").chosen
    for key in variant_keys(chosen, [DType.FLOAT32, DType.BFLOAT16], [Precision.HIGHEST]):
        assert make_variant(chosen, key).sources


def test_names_are_distinct() -> None:
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)
