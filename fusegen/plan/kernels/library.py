"""Calls of PyTorch's own kernels."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.ir.graph import Node
from fusegen.plan.buffers import Buffer
from fusegen.plan.cost import Cost


@dataclass(frozen=True)
class LibraryPlan:
    """One call of PyTorch's own kernel: `node` from the buffers `operands` to `result`."""

    node: Node
    operands: tuple[Buffer, ...]
    result: Buffer
    why: str
    cost: Cost

    @property
    def written(self) -> tuple[Buffer, ...]:
        """The buffer it fills."""
        return (self.result,)
