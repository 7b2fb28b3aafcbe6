"""The `.cu` file of a module: every kernel of its plan, and their launchers."""

from __future__ import annotations

from fusegen.codegen.elementwise import ElementwiseText, elementwise_text
from fusegen.codegen.environment import environment, tidy
from fusegen.codegen.product import ProductText, product_text
from fusegen.codegen.rows import RowText, rows_text
from fusegen.plan.kernels import ElementwisePlan, LibraryPlan, ModulePlan, ProductPlan, Step


def cuda_source(plan: ModulePlan, header: tuple[str, ...]) -> str:
    """All kernels of the plan as one CUDA file; `header` is its comment, line by line."""
    kernels = [_kernel(step) for step in plan.steps if not isinstance(step, LibraryPlan)]
    template = environment().get_template("module.cu.j2")
    return tidy(template.render(header=header, kernels=kernels))


def _kernel(step: Step) -> str:
    assert not isinstance(step, LibraryPlan)
    text: ElementwiseText | ProductText | RowText
    if isinstance(step, ElementwisePlan):
        family, text = "elementwise", elementwise_text(step)
    elif isinstance(step, ProductPlan):
        family, text = "product", product_text(step)
    else:
        family, text = "rows", rows_text(step)
    return environment().get_template(f"kernels/{family}.cu.j2").render(text=text)
