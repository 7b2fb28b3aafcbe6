"""The texts of a product's forms beside the shared-memory tile: a kernel of its own for each."""

from __future__ import annotations

from dataclasses import replace

from fusegen.codegen.mma_product import MmaText, mma_text
from fusegen.codegen.scope import Scope
from fusegen.codegen.skinny_product import SkinnyText, skinny_text
from fusegen.codegen.tensor_product import TensorProductText, tensor_product_text
from fusegen.codegen.tile_epilogue import product_integers
from fusegen.codegen.wide_product import WideText, wide_text
from fusegen.ir.integers import Integer
from fusegen.plan.buffers import Buffer
from fusegen.plan.kernels.epilogues import ElementEpilogue
from fusegen.plan.kernels.product import ProductPlan
from fusegen.plan.kernels.product_forms import MmaForm, SkinnyForm, WgmmaForm
from fusegen.plan.kernels.split_product import WideForm


def tensor_forms(plan: ProductPlan, host: Scope) -> tuple[TensorProductText, ...]:
    """The forms for Hopper's tensor cores, in the plan's order; `host` is the launcher's scope."""
    return tuple(_tensor_form(plan, form, host) for form in plan.tensor_forms)


def _tensor_form(plan: ProductPlan, cores: WgmmaForm, host: Scope) -> TensorProductText:
    split, shared = cores.split, cores.shared
    marks = split.written if split and not shared else ()
    kind = "" if split else f"_{cores.columns}"
    if shared:
        kind += "_shared"
        plan = replace(plan, epilogue=ElementEpilogue((shared.leaving,)))
    elif cores.parts > 1:
        kind += f"_by_{cores.parts}"
    kernel = f"{plan.name}{kind}_tensor_kernel"
    return tensor_product_text(plan, cores, kernel, _own_scope(plan, cores, marks), host)


def skinny_form(plan: ProductPlan, host: Scope) -> SkinnyText | None:
    """The form for few rows, if there is one."""
    if plan.skinny is None:
        return None
    return skinny_text(plan, plan.skinny, _own_scope(plan, plan.skinny), host)


def mma_form(plan: ProductPlan, host: Scope) -> MmaText | None:
    """The form for tensor cores without warpgroup products, if there is one."""
    return mma_text(plan, plan.mma, _own_scope(plan, plan.mma), host) if plan.mma else None


def wide_form(plan: ProductPlan, host: Scope) -> WideText | None:
    """The form for tiles that a split's float16 parts cannot represent, if there is one."""
    cores = plan.tensor_cores
    split = cores.split if cores else None
    if cores is None or split is None or split.wide is None:
        return None
    scope = _own_scope(plan, split.wide, (split.left.scales, split.right.scales, split.flags))
    return wide_text(plan, cores, split.wide, scope, host)


def split_sizes(plan: ProductPlan) -> tuple[Integer, ...]:
    """The sizes of a split's workspaces."""
    cores = plan.tensor_cores
    return (cores.split.left.pitch, cores.split.right.pitch) if cores and cores.split else ()


def _own_scope(
    plan: ProductPlan,
    form: WgmmaForm | MmaForm | SkinnyForm | WideForm,
    workspaces: tuple[Buffer, ...] = (),
) -> Scope:
    """The scope of a form's kernel, which is launched where the epilogue's operands are contiguous,
    and whose own operands come otherwise."""
    operands = (plan.left, plan.right) if plan.skipped else ()
    values = (*operands, *plan.prologues, *plan.epilogue.values)
    written = (*plan.epilogue.written, *workspaces)
    indices = (dim.index for view in (form.left, form.right) for dim in view.batches)
    integers = (*product_integers(plan), *indices)
    return Scope.of(plan.name, values, written, integers, is_packed=True)
