"""The text of a matrix product: the kernel on the shared-memory tile, and its other forms."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.codegen.c_text import compute_type
from fusegen.codegen.kernel_text import KernelText
from fusegen.codegen.loops import element_in_memory
from fusegen.codegen.mma_product import MmaText
from fusegen.codegen.operand_prologue import ElementText, SkippedText, element_of, skipped_text
from fusegen.codegen.product_forms import (
    mma_form,
    skinny_form,
    split_sizes,
    tensor_forms,
    wide_form,
)
from fusegen.codegen.scope import Scope, stored_integers
from fusegen.codegen.shared_depth import AddedSumsText, added_sums_text
from fusegen.codegen.skinny_product import SkinnyText
from fusegen.codegen.tensor_product import TensorProductText
from fusegen.codegen.tile_epilogue import (
    RowEpilogueText,
    TileElementsText,
    element_lines,
    product_integers,
    row_epilogue,
    tile_elements,
)
from fusegen.codegen.wide_product import WideText
from fusegen.plan.expressions import Expression, Load
from fusegen.plan.kernels.epilogues import ElementEpilogue
from fusegen.plan.kernels.product import (
    ProductPlan,
    TunedRows,
)
from fusegen.plan.kernels.product_forms import SharedDepth, TileKind


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
    skipped: SkippedText | None
    left_source: ElementText
    right_source: ElementText
    left_depth_contiguous: bool
    right_depth_contiguous: bool
    elements: TileElementsText
    few_lines: tuple[str, ...]
    epilogue: RowEpilogueText | None
    tensor: TensorProductText | None
    alternatives: tuple[TensorProductText, ...]
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
        return (self.tensor, *self.alternatives) if self.tensor is not None else ()

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
    host = Scope.of(plan.name, values, plan.written, (*integers, *split_sizes(plan)))
    elements = TileElementsText()
    few_lines: tuple[str, ...] = ()
    rows = None
    if isinstance(epilogue, ElementEpilogue):
        elements = tile_elements(plan, epilogue, scope, "accumulators[i][j]")
        few_lines = element_lines(epilogue, scope, "own_sum")
    else:
        rows = row_epilogue(epilogue, plan.tile, plan.accumulator, scope)
    kernel = KernelText.of(plan, scope, host)
    tensor = tensor_forms(plan, host)
    return ProductText(
        kernel=kernel,
        accumulator=compute_type(plan.accumulator),
        batches=scope.text(axes.batches),
        rows=scope.text(axes.rows),
        columns=scope.text(axes.columns),
        depths=scope.text(axes.depths),
        tile_rows=plan.tile.rows,
        tile_columns=plan.tile.columns,
        used_columns=plan.tile.used_columns,
        tile_depth=plan.tile.depth,
        own_rows=plan.tile.own_rows,
        own_columns=plan.tile.own_columns,
        threads=plan.tile.threads,
        left=element_of(plan.left, plan.left_prologue, scope),
        right=element_of(plan.right, plan.right_prologue, scope),
        skipped=skipped_text(plan, scope),
        left_source=_source(plan.left, plan.left_prologue, plan.left_is_even, scope),
        right_source=_source(plan.right, plan.right_prologue, plan.right_is_even, scope),
        left_depth_contiguous=plan.left_depth_contiguous,
        right_depth_contiguous=plan.right_depth_contiguous,
        elements=elements,
        few_lines=few_lines,
        epilogue=rows,
        tensor=tensor[0] if tensor else None,
        alternatives=tensor[1:],
        skinny=skinny_form(plan, host),
        mma=mma_form(plan, host),
        wide=wide_form(plan, host),
        leaving=element_lines(ElementEpilogue(left_sums), scope, "accumulators[i][j]"),
        shared_depth=plan.shared_depth,
        added_sums=added_sums_text(plan, plan.shared, host) if plan.shared else None,
        skinny_first=plan.skinny_first,
        tuned=plan.tuned,
    )


def _source(load: Load, prologue: Expression | None, is_even: bool, scope: Scope) -> ElementText:
    """What the shared-memory tile is told of an operand: an element's place where these lie evenly
    apart in depth, else the element."""
    if prologue is not None or not is_even:
        return element_of(load, prologue, scope)
    return ElementText((), f"&{element_in_memory(load, scope)}")
