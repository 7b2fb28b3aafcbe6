"""The plan for people and programs: what shares a kernel, what is left to a library, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from fusegen.plan.boundaries import Boundary
from fusegen.plan.cost import H100, Cost
from fusegen.plan.kernels.convolution import ConvolutionPlan
from fusegen.plan.kernels.elementwise import ElementwisePlan
from fusegen.plan.kernels.library import LibraryPlan
from fusegen.plan.kernels.module import ModulePlan, Step
from fusegen.plan.kernels.product import ProductPlan
from fusegen.plan.kernels.rows import RowPlan
from fusegen.plan.labels import labels_of
from fusegen.plan.product_forms import forms_of

TEXT_WIDTH = 100

KINDS = {
    ElementwisePlan: "elementwise",
    RowPlan: "reduction",
    ProductPlan: "matrix product",
    ConvolutionPlan: "convolution",
}


@dataclass(frozen=True)
class KernelLine:
    """What a kernel does and costs: `ops` are the user's names and operations it covers."""

    name: str
    kind: str
    ops: tuple[str, ...]
    cost: Cost
    why: str


@dataclass(frozen=True)
class LibraryLine:
    """An operation left to PyTorch's own kernel."""

    op: str
    why: str


@dataclass(frozen=True)
class BoundaryLine:
    """Two steps, by name, the second of which reads what the first writes, and why they are two."""

    first: str
    second: str
    why: str


@dataclass(frozen=True)
class SavedLine:
    """A value that the forward keeps for the backward, beside its arguments and results: its type
    as text, and its size under the given sizes."""

    name: str
    type: str
    bytes: int


@dataclass(frozen=True)
class Explanation:
    """A plan's kernels and library calls, each in their order, and the boundaries between them.

    A model that can be trained also has what its forward saves then, and its backward.
    """

    kernels: tuple[KernelLine, ...]
    library_calls: tuple[LibraryLine, ...]
    boundaries: tuple[BoundaryLine, ...] = ()
    saved: tuple[SavedLine, ...] = ()
    backward: Explanation | None = None

    @staticmethod
    def of(plan: ModulePlan, boundaries: tuple[Boundary, ...] = ()) -> Explanation:
        """The explanation of a plan."""
        kernels = [
            KernelLine(
                step.name,
                KINDS[type(step)],
                tuple(map(str, labels_of(step.covers))),
                step.cost,
                _why(step),
            )
            for step in plan.steps
            if not isinstance(step, LibraryPlan)
        ]
        calls = [
            LibraryLine(_label(step), step.why)
            for step in plan.steps
            if isinstance(step, LibraryPlan)
        ]
        between = [BoundaryLine(_name(b.first), _name(b.second), b.why) for b in boundaries]
        return Explanation(tuple(kernels), tuple(calls), tuple(between))

    def as_json(self) -> dict[str, Any]:
        """`kernels` with name, kind, ops, bytes, operations, floor in microseconds and reason, and
        `library_calls` with the operation and the reason; with a backward, also `saved`, the
        values kept for it and their bytes, and the same of the backward in `backward`."""
        training: dict[str, Any] = {}
        if self.backward is not None:
            training["saved"] = [vars(value) for value in self.saved]
            training["saved_bytes"] = sum(value.bytes for value in self.saved)
            training["backward"] = self.backward.as_json()
        return {
            "kernels": [
                {
                    "name": kernel.name,
                    "kind": kernel.kind,
                    "ops": list(kernel.ops),
                    "reads_bytes": kernel.cost.reads,
                    "writes_bytes": kernel.cost.writes,
                    "flops": kernel.cost.operations,
                    "floor_us": _floor(kernel.cost),
                    "why": kernel.why,
                }
                for kernel in self.kernels
            ],
            "library_calls": [{"op": call.op, "why": call.why} for call in self.library_calls],
            **training,
        }

    def as_text(self) -> str:
        """A table with a line for each kernel and call, and the reasons below it; then the same of
        the backward."""
        if self.backward is None:
            return self._plan_text()
        total = scaled(sum(value.bytes for value in self.saved), "B")
        saved = [
            f"  {value.name}: {value.type}, {scaled(value.bytes, 'B')}" for value in self.saved
        ]
        head = f"In training, {total} are saved for the backward{':' if saved else '.'}"
        parts = [self._plan_text(), "", head, *saved, "", "The backward:", ""]
        return "\n".join([*parts, self.backward._plan_text()])

    def _plan_text(self) -> str:
        table = Table("", "kind", "reads", "writes", "operations", "floor", box=box.SIMPLE)
        for kernel in self.kernels:
            cost = kernel.cost
            table.add_row(
                kernel.name,
                kernel.kind,
                scaled(cost.reads, "B"),
                scaled(cost.writes, "B"),
                scaled(cost.operations, ""),
                f"{_floor(cost):.1f} µs",
            )
        for call in self.library_calls:
            table.add_row(call.op, "library call")
        console = Console(width=TEXT_WIDTH, color_system=None)
        with console.capture() as capture:
            console.print(table)
            for kernel in self.kernels:
                console.print(f"{kernel.name}: {', '.join(kernel.ops)}", highlight=False)
                console.print(f"  {kernel.why}", highlight=False)
            for call in self.library_calls:
                console.print(f"{call.op}\n  {call.why}", highlight=False)
            for line in self.boundaries:
                console.print(f"{line.first} | {line.second}: {line.why}", highlight=False)
        return capture.get().strip("\n")


def _why(step: Step) -> str:
    """The planner's reason, and a matrix product's forms."""
    if not isinstance(step, ProductPlan):
        return step.why
    return f"{step.why}; forms: {', then '.join(forms_of(step))}"


def _name(step: Step) -> str:
    return _label(step) if isinstance(step, LibraryPlan) else step.name


def _label(step: LibraryPlan) -> str:
    return str(labels_of((step.node,))[0])


def _floor(cost: Cost) -> float:
    """The least time on the device the planner reckons with, in microseconds."""
    return round(cost.floor(H100) * 1e6, 3)


def scaled(value: float, unit: str) -> str:
    """A number with three digits and a metric prefix."""
    for prefix in ("", "k", "M", "G"):
        if value < 1000:
            return f"{value:.3g} {prefix}{unit}".strip()
        value /= 1000
    return f"{value:.3g} T{unit}"
