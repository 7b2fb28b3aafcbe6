"""The text of a matrix product's kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fusegen.codegen.c_text import compute_type
from fusegen.codegen.kernel_text import KernelText
from fusegen.codegen.loops import element_in_memory
from fusegen.codegen.mma_product import MmaText, mma_text
from fusegen.codegen.operand_prologue import ElementText, element_of
from fusegen.codegen.scope import Scope, stored_integers
from fusegen.codegen.shared_depth import AddedSumsText, added_sums_text
from fusegen.codegen.skinny_product import SkinnyText, skinny_text
from fusegen.codegen.tensor_product import TensorProductText, tensor_product_text
from fusegen.codegen.tile_epilogue import (
    RowEpilogueText,
    element_lines,
    product_integers,
    row_epilogue,
)
from fusegen.codegen.wide_product import WideText, wide_text
from fusegen.ir.integers import Integer
from fusegen.plan.buffers import Buffer
from fusegen.plan.expressions import Expression, Load
from fusegen.plan.kernels.epilogues import ElementEpilogue
from fusegen.plan.kernels.product import (
    ProductPlan,
    TunedRows,
)
from fusegen.plan.kernels.product_forms import SharedDepth, TileKind, WgmmaForm


@dataclass(frozen=True)
class ProductText:
    """What the skeleton `product.cu.j2` fills in."""

    kernel: KernelText
    accumulator: str
    batches: str
    rows: str
    columns: str
    depths: str
    tile_rows: int
    tile_columns: int
    used_columns: int
    tile_depth: int
    own_rows: int
    own_columns: int
    threads: int
    left: ElementText
    right: ElementText
    left_source: ElementText
    right_source: ElementText
    left_depth_contiguous: bool
    right_depth_contiguous: bool
    element_lines: tuple[str, ...]
    few_lines: tuple[str, ...]
    epilogue: RowEpilogueText | None
    tensor: TensorProductText | None
    narrower: tuple[TensorProductText, ...]
    skinny: SkinnyText | None
    mma: MmaText | None
    wide: WideText | None
    leaving: tuple[str, ...]
    shared_depth: SharedDepth | None
    added_sums: AddedSumsText | None
    skinny_first: bool
    tuned: tuple[TunedRows, ...]

    @property
    def tile_choice(self) -> tuple[TensorProductText, ...]:
        """The forms among which the launcher chooses, the widest first."""
        return (self.tensor, *self.narrower) if self.tensor is not None else ()

    def form_number(self, kind: TileKind) -> int:
        """Which of `tile_choice` is of this kind."""
        return [form.kind for form in self.tile_choice].index(kind)

    @property
    def is_split(self) -> bool:
        """Whether float16 parts of the operands are multiplied."""
        return self.tensor is not None and self.tensor.split is not None


def product_text(plan: ProductPlan) -> ProductText:
    """Fill the skeleton from the plan."""
    axes, epilogue = plan.axes, plan.epilogue
    values = plan.values
    integers = product_integers(plan)
    left_sums = (plan.shared_depth.leaving,) if plan.shared_depth else ()
    written = (*epilogue.written, *(store.buffer for store in left_sums))
    scope = Scope.of(plan.name, values, written, (*integers, *stored_integers(left_sums)))
    host = Scope.of(plan.name, values, plan.written, (*integers, *_split_sizes(plan)))
    accumulator = compute_type(plan.accumulator)
    lines: tuple[str, ...] = ()
    few_lines: tuple[str, ...] = ()
    rows = None
    if isinstance(epilogue, ElementEpilogue):
        lines = element_lines(epilogue, scope, "accumulators[i][j]")
        few_lines = element_lines(epilogue, scope, "own_sum")
    else:
        rows = row_epilogue(epilogue, plan.tile, plan.accumulator, scope)
    return ProductText(
        KernelText.of(plan, scope, host),
        accumulator,
        scope.text(axes.batches),
        scope.text(axes.rows),
        scope.text(axes.columns),
        scope.text(axes.depths),
        plan.tile.rows,
        plan.tile.columns,
        plan.tile.used_columns,
        plan.tile.depth,
        plan.tile.own_rows,
        plan.tile.own_columns,
        plan.tile.threads,
        element_of(plan.left, plan.left_prologue, scope),
        element_of(plan.right, plan.right_prologue, scope),
        _source(plan.left, plan.left_prologue, plan.left_is_even, scope),
        _source(plan.right, plan.right_prologue, plan.right_is_even, scope),
        plan.left_depth_contiguous,
        plan.right_depth_contiguous,
        lines,
        few_lines,
        rows,
        _tensor_form(plan, plan.tensor_cores, host) if plan.tensor_cores else None,
        tuple(_tensor_form(plan, form, host) for form in plan.narrower),
        _skinny_form(plan, host),
        mma_text(plan, plan.mma, _inner_scope(plan), host) if plan.mma else None,
        _wide_form(plan, host),
        element_lines(ElementEpilogue(left_sums), scope, "accumulators[i][j]"),
        plan.shared_depth,
        added_sums_text(plan, plan.shared, host) if plan.shared else None,
        plan.skinny_first,
        plan.tuned,
    )


def _source(load: Load, prologue: Expression | None, is_even: bool, scope: Scope) -> ElementText:
    """What the shared-memory tile is told of an operand: an element's place where these lie evenly
    apart in depth, else the element."""
    if prologue is not None or not is_even:
        return element_of(load, prologue, scope)
    return ElementText((), f"&{element_in_memory(load, scope)}")


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
    return tensor_product_text(plan, cores, kernel, _inner_scope(plan, marks), host)


def _skinny_form(plan: ProductPlan, host: Scope) -> SkinnyText | None:
    if plan.skinny is None:
        return None
    return skinny_text(plan, plan.skinny, _inner_scope(plan), host)


def _wide_form(plan: ProductPlan, host: Scope) -> WideText | None:
    cores = plan.tensor_cores
    split = cores.split if cores else None
    if cores is None or split is None or split.wide is None:
        return None
    scope = _inner_scope(plan, (split.left.scales, split.right.scales, split.flags))
    return wide_text(plan, cores, split.wide, scope, host)


def _split_sizes(plan: ProductPlan) -> tuple[Integer, ...]:
    """The sizes of a split's workspaces."""
    cores = plan.tensor_cores
    return (cores.split.left.pitch, cores.split.right.pitch) if cores and cores.split else ()


def _inner_scope(plan: ProductPlan, workspaces: tuple[Buffer, ...] = ()) -> Scope:
    """The scope of a kernel that is launched where the epilogue's operands are contiguous, and
    whose own operands come otherwise."""
    values = (*plan.prologues, *plan.epilogue.values)
    written = (*plan.epilogue.written, *workspaces)
    return Scope.of(plan.name, values, written, product_integers(plan), is_packed=True)
