"""What a matrix product's kernel does with a finished tile."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.plan.buffers import Buffer
from fusegen.plan.expressions import Expression
from fusegen.plan.kernels.row_program import RowProgram
from fusegen.plan.kernels.stores import Store


@dataclass(frozen=True)
class ElementEpilogue:
    """Each thread finishes the elements it accumulated, in registers."""

    stores: tuple[Store, ...]

    @property
    def written(self) -> tuple[Buffer, ...]:
        """The buffers it fills."""
        return tuple(store.buffer for store in self.stores)

    @property
    def values(self) -> tuple[Expression, ...]:
        """What it computes."""
        return tuple(store.value for store in self.stores)


@dataclass(frozen=True)
class RowEpilogue:
    """What both epilogues over rows state: `lanes` threads share a row of `program`, which is
    `width` neighbouring columns of a row of the tile."""

    program: RowProgram
    width: int
    lanes: int

    @property
    def written(self) -> tuple[Buffer, ...]:
        """The buffers it fills."""
        return self.program.written

    @property
    def values(self) -> tuple[Expression, ...]:
        """What it computes."""
        return self.program.values


@dataclass(frozen=True)
class GroupEpilogue(RowEpilogue):
    """The tile goes through shared memory; its rows are groups of columns of the product, each
    wholly inside one tile."""


@dataclass(frozen=True)
class PartialEpilogue(RowEpilogue):
    """The tile leaves, for each row and each `width` of its columns, the states of reductions over
    them; the product itself is not stored."""


Epilogue = ElementEpilogue | GroupEpilogue | PartialEpilogue
