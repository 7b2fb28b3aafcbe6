"""The row cache: how the phases of a row program keep values for later ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from fusegen.codegen.c_text import compute_type
from fusegen.codegen.loops import VectorLoop
from fusegen.plan.kernels.row_program import Kept


class Slots(Protocol):
    """How a phase reads and writes the values that it keeps for later ones."""

    def read(self, kept: Kept, loop: VectorLoop) -> str:
        """The text of the kept value inside the element loop."""

    def write(self, kept: Kept, text: str, loop: VectorLoop) -> str:
        """The statement inside the element loop that keeps `text`."""


@dataclass(frozen=True)
class MemorySlots:
    """Slots in shared memory; `address` is where a slot's element for the first column of a
    thread's vector lies."""

    address: Callable[[int], str]

    def read(self, kept: Kept, loop: VectorLoop) -> str:
        """An element of a vector loaded ahead of the element loop."""
        variable = loop.scope.names.fresh(f"kept_{kept.value.name}")
        dtype, address = compute_type(kept.value.dtype), self.address(kept.slot)
        loop.before.append(f"const auto {variable} = load_vector<{dtype}, vector>({address});")
        return f"{variable}[element]"

    def write(self, kept: Kept, text: str, loop: VectorLoop) -> str:
        """Into a vector that is stored behind the element loop."""
        variable = loop.scope.names.fresh(f"kept_{kept.value.name}")
        loop.before.append(f"Vector<{compute_type(kept.value.dtype)}, vector> {variable};")
        loop.after.append(f"store_vector({self.address(kept.slot)}, {variable});")
        return f"{variable}[element] = {text};"


@dataclass(frozen=True)
class RegisterSlots:
    """Slots in each thread's registers; `element` is the text of a slot's current element."""

    element: Callable[[int], str]

    def read(self, kept: Kept, loop: VectorLoop) -> str:
        """The register itself."""
        return self.element(kept.slot)

    def write(self, kept: Kept, text: str, loop: VectorLoop) -> str:
        """An assignment to the register."""
        return f"{self.element(kept.slot)} = {text};"
