"""The text of the kernel that adds the sums of a K that blocks share through memory."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.codegen.kernel_text import contiguous, kernel_arguments
from fusegen.codegen.scope import Scope, stored_integers
from fusegen.codegen.split_product import SplitText, split_text
from fusegen.codegen.tile_epilogue import element_lines
from fusegen.plan.kernels.epilogues import ElementEpilogue
from fusegen.plan.kernels.product import ProductPlan
from fusegen.plan.kernels.product_forms import SharedDepth


@dataclass(frozen=True)
class AddedSumsText:
    """The kernel with these parameters, which the launcher calls with these arguments: `lines`
    finish an element whose `own_sum` has been added up from the parts' `sums`. Those of a `split`
    product lack its scales. `sizes` are the batches, rows and columns. `conditions` are those on
    the tensors at hand for sharing."""

    sums: str
    conditions: tuple[str, ...]
    parameters: tuple[str, ...]
    arguments: tuple[str, ...]
    lines: tuple[str, ...]
    split: SplitText | None
    sizes: tuple[str, str, str]


def added_sums_text(plan: ProductPlan, shared: SharedDepth, host: Scope) -> AddedSumsText:
    """Fill the skeleton from the plan; `host` is the scope of the launcher."""
    epilogue, axes = plan.epilogue, plan.axes
    assert isinstance(epilogue, ElementEpilogue)
    split = plan.tensor_cores.split if plan.tensor_cores else None
    written = (*epilogue.written, *(split.written if split else ()))
    places = (axes.batch, axes.row, axes.column, axes.batches, axes.rows, axes.columns)
    pitches = (split.left.pitch, split.right.pitch) if split else ()
    integers = (*places, *stored_integers(epilogue.stores), *pitches)
    scope = Scope.of(plan.name, epilogue.values, written, integers, is_packed=True)
    strided = [buffer for buffer in scope.loads if buffer in host.strided]
    return AddedSumsText(
        host.buffer(shared.sums),
        tuple(contiguous(host, buffer) for buffer in strided),
        scope.parameters,
        kernel_arguments(scope, host),
        element_lines(epilogue, scope, "own_sum"),
        split_text(plan, split, host, scope) if split else None,
        (scope.text(axes.batches), scope.text(axes.rows), scope.text(axes.columns)),
    )
