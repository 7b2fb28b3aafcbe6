"""What every kernel plan states."""

from __future__ import annotations

from dataclasses import dataclass, field

from fusegen.ir.graph import Node
from fusegen.plan.buffers import Buffer
from fusegen.plan.cost import Cost

# The threads of a warp, on all devices there are.
WARP = 32
# What a kernel may declare of shared memory.
STATIC_SHARED = 48 * 1024


@dataclass(frozen=True)
class InPlace:
    """A kernel's result `written` takes the memory of `read`, which nothing needs behind it: each
    element takes the place of the one that is read for it."""

    read: Buffer
    written: Buffer

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Both."""
        return (self.read, self.written)


@dataclass(frozen=True)
class KernelPlan:
    """What all kernel plans state.

    `covers` are the graph nodes computed, `why` is the planner's reason for this kernel, and
    `cost` what it moves and computes. What it writes has memory of its own but for `in_place`.
    """

    name: str
    covers: tuple[Node, ...]
    why: str
    cost: Cost
    in_place: InPlace | None = field(default=None, kw_only=True)
