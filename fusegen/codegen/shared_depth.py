"""The text of a K that blocks of the shared-memory tile share."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.codegen.kernel_text import contiguous, kernel_arguments
from fusegen.codegen.scope import Scope, stored_integers
from fusegen.codegen.tile_epilogue import element_lines
from fusegen.plan.kernels.epilogues import ElementEpilogue
from fusegen.plan.kernels.product import ProductPlan
from fusegen.plan.kernels.product_forms import SharedDepth


@dataclass(frozen=True)
class SharedDepthText:
    """How many blocks there are to share K, the least steps of each, and where they leave their
    `sums`; `lines` finish an element whose `own_sum` has been added up, in a kernel with these
    parameters. `conditions` are those on the tensors at hand for sharing."""

    blocks: int
    least_steps: int
    sums: str
    conditions: tuple[str, ...]
    parameters: tuple[str, ...]
    arguments: tuple[str, ...]
    lines: tuple[str, ...]


def shared_depth_text(plan: ProductPlan, shared: SharedDepth, host: Scope) -> SharedDepthText:
    """Fill the skeleton from the plan; `host` is the scope of the launcher."""
    epilogue, axes = plan.epilogue, plan.axes
    assert isinstance(epilogue, ElementEpilogue)
    places = (axes.batch, axes.row, axes.column)
    integers = (*places, axes.batches, axes.rows, axes.columns, *stored_integers(epilogue.stores))
    scope = Scope.of(plan.name, epilogue.values, epilogue.written, integers, is_packed=True)
    strided = [buffer for buffer in scope.loads if buffer in host.strided]
    return SharedDepthText(
        shared.blocks,
        shared.least_steps,
        host.buffer(shared.sums),
        tuple(contiguous(host, buffer) for buffer in strided),
        scope.parameters,
        kernel_arguments(scope, host),
        element_lines(epilogue, scope, "own_sum"),
    )
