"""Everything that one call of a module does."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph
from fusegen.plan.buffers import Buffer
from fusegen.plan.kernels.attention import AttentionPlan
from fusegen.plan.kernels.back_to_back import BackToBackPlan
from fusegen.plan.kernels.base import InPlace
from fusegen.plan.kernels.convolution import ConvolutionPlan
from fusegen.plan.kernels.elementwise import ElementwisePlan
from fusegen.plan.kernels.library import LibraryPlan
from fusegen.plan.kernels.product import ProductPlan
from fusegen.plan.kernels.rows import RowPlan

Step = (
    ElementwisePlan
    | RowPlan
    | ProductPlan
    | AttentionPlan
    | BackToBackPlan
    | ConvolutionPlan
    | LibraryPlan
)


@dataclass(frozen=True)
class ModulePlan:
    """Everything one call of the module does: `steps` in order, from `arguments` to `results`.

    `graph` is what was planned, with names for sizes that are sums. `results` are the buffers
    behind its roots, in their order; `workspaces` are allocated for the call, but for those that a
    kernel writes in place. `releases` are, for each step, the buffers that are given back behind
    it: workspaces, and arguments that the caller has no further use for.
    """

    graph: Graph
    dtype: DType
    arguments: tuple[Buffer, ...]
    results: tuple[Buffer, ...]
    workspaces: tuple[Buffer, ...]
    steps: tuple[Step, ...]
    releases: tuple[tuple[Buffer, ...], ...]


def in_place_of(step: Step) -> InPlace | None:
    """What a step writes where it reads, if it does so."""
    return None if isinstance(step, LibraryPlan) else step.in_place
