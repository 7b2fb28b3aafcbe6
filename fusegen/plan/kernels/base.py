"""What every kernel plan states."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.ir.graph import Node
from fusegen.plan.cost import Cost

# The threads of a warp, on all devices there are.
WARP = 32


@dataclass(frozen=True)
class KernelPlan:
    """What all kernel plans state.

    `covers` are the graph nodes computed, `why` is the planner's reason for this kernel, and
    `cost` what it moves and computes.
    """

    name: str
    covers: tuple[Node, ...]
    why: str
    cost: Cost
