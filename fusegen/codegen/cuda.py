"""The `.cu` file of a module: every kernel of its plan, and their launchers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fusegen.codegen.attention import AttentionText, attention_text
from fusegen.codegen.back_to_back import BackToBackText, back_to_back_text
from fusegen.codegen.convolution import ConvolutionText, convolution_text
from fusegen.codegen.elementwise import ElementwiseText, elementwise_text
from fusegen.codegen.environment import environment, tidy
from fusegen.codegen.kernel_text import Signature
from fusegen.codegen.product import ProductText, product_text
from fusegen.codegen.rows import RowText, rows_text
from fusegen.plan.kernels.attention import AttentionPlan
from fusegen.plan.kernels.back_to_back import BackToBackPlan
from fusegen.plan.kernels.convolution import ConvolutionPlan
from fusegen.plan.kernels.elementwise import ElementwisePlan
from fusegen.plan.kernels.library import LibraryPlan
from fusegen.plan.kernels.module import ModulePlan
from fusegen.plan.kernels.product import ProductPlan
from fusegen.plan.kernels.rows import RowPlan

KernelStep = (
    ElementwisePlan | RowPlan | ProductPlan | AttentionPlan | BackToBackPlan | ConvolutionPlan
)
FamilyText = (
    ElementwiseText | RowText | ProductText | AttentionText | BackToBackText | ConvolutionText
)

SKELETONS = {
    ElementwiseText: "kernels/elementwise.cu.j2",
    RowText: "kernels/rows.cu.j2",
    ProductText: "kernels/product.cu.j2",
    AttentionText: "kernels/attention.cu.j2",
    BackToBackText: "kernels/back_to_back.cu.j2",
    ConvolutionText: "kernels/convolution.cu.j2",
}


@dataclass(frozen=True)
class CudaSource:
    """A `.cu` file: its text, and the launcher each of its kernels exports, by the kernel's name
    (`launch_<name>`)."""

    text: str
    launchers: Mapping[str, Signature]


def cuda_source(plan: ModulePlan, header: tuple[str, ...]) -> CudaSource:
    """All kernels of the plan as one CUDA file; `header` is its comment, line by line."""
    kernels = [_fill(step) for step in plan.steps if not isinstance(step, LibraryPlan)]
    template = environment().get_template("module.cu.j2")
    text = template.render(
        header=header,
        kernels=[_render(kernel) for kernel in kernels],
        has_attention=any(isinstance(k, AttentionText) for k in kernels),
        has_back_to_back=any(isinstance(k, BackToBackText) for k in kernels),
        uses_clusters=any(isinstance(k, RowText) and k.uses_clusters for k in kernels),
        uses_rows_ahead=any(isinstance(k, RowText) and k.uses_rows_ahead for k in kernels),
        uses_multiplied=any(isinstance(k, ElementwiseText) and k.multiplies for k in kernels),
        uses_mma=any(isinstance(k, ProductText) and k.mma for k in kernels),
        uses_prologues=any(
            isinstance(k, ProductText) and k.tensor and k.tensor.prologues for k in kernels
        ),
        uses_rest_lines=any(
            isinstance(k, ProductText) and k.tensor and k.tensor.fewer_lines for k in kernels
        ),
        uses_skinny=any(isinstance(k, ProductText) and k.skinny for k in kernels),
        has_convolution=any(isinstance(k, ConvolutionText) for k in kernels),
        uses_tensor_cores=any(isinstance(k, ProductText) and k.tensor for k in kernels),
        uses_parts=any(
            isinstance(k, ProductText) and any(form.parts > 1 for form in k.tile_choice)
            for k in kernels
        ),
        uses_shared_tiles=any(isinstance(k, ProductText) for k in kernels),
        uses_tile_waves=any(
            isinstance(k, ProductText) and k.alternatives and not k.is_split for k in kernels
        ),
        uses_splits=any(isinstance(k, ProductText) and k.is_split for k in kernels),
        uses_wide_splits=any(isinstance(k, ProductText) and k.wide for k in kernels),
    )
    return CudaSource(tidy(text), {k.kernel.name: k.kernel.signature for k in kernels})


def _fill(step: KernelStep) -> FamilyText:
    if isinstance(step, ElementwisePlan):
        return elementwise_text(step)
    if isinstance(step, ProductPlan):
        return product_text(step)
    if isinstance(step, AttentionPlan):
        return attention_text(step)
    if isinstance(step, BackToBackPlan):
        return back_to_back_text(step)
    if isinstance(step, ConvolutionPlan):
        return convolution_text(step)
    return rows_text(step)


def _render(text: FamilyText) -> str:
    return environment().get_template(SKELETONS[type(text)]).render(text=text)
