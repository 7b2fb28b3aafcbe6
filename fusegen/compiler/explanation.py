"""The plan for people and programs: what shares a kernel, what is left to a library, and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from fusegen.compiler.product_forms import forms_of
from fusegen.compiler.row_tile_forms import row_tile_forms
from fusegen.plan.boundaries import Boundary
from fusegen.plan.cost import H100, Cost, SizeHints
from fusegen.plan.kernels.attention import AttentionPlan
from fusegen.plan.kernels.back_to_back import BackToBackPlan
from fusegen.plan.kernels.convolution import ConvolutionPlan
from fusegen.plan.kernels.elementwise import ElementwisePlan
from fusegen.plan.kernels.library import LibraryPlan
from fusegen.plan.kernels.module import ModulePlan, Step
from fusegen.plan.kernels.product import ProductPlan
from fusegen.plan.kernels.rows import RowPlan
from fusegen.plan.labels import labels_of
from fusegen.plan.lifetimes import peak

TEXT_WIDTH = 100

KINDS = {
    ElementwisePlan: "elementwise",
    RowPlan: "reduction",
    ProductPlan: "matrix product",
    AttentionPlan: "attention",
    BackToBackPlan: "matrix products",
    ConvolutionPlan: "convolution",
}


@dataclass(frozen=True)
class KernelLine:
    """What a kernel does and costs: `ops` are the user's names and operations it covers, `forms`
    when a matrix product or attention runs in which form, in the order in which they are tried."""

    name: str
    kind: str
    ops: tuple[str, ...]
    cost: Cost
    why: str
    forms: tuple[str, ...]


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

    `peak_bytes` is the most memory that a call has allocated at once, and `peak_step` names the
    step in which it has; what PyTorch's own kernels allocate for themselves is not known. `sizes`
    are the symbolic sizes that costs are for, and `is_built` tells that what is built, whose sizes
    are not known then, is planned alike. A model that can be trained also has what its forward
    saves then, and its backward; one that computes something else in training, as with a dropout,
    its forward there.
    """

    kernels: tuple[KernelLine, ...]
    library_calls: tuple[LibraryLine, ...]
    peak_bytes: int
    peak_step: str
    boundaries: tuple[BoundaryLine, ...] = ()
    sizes: tuple[tuple[str, int], ...] = ()
    is_built: bool = True
    saved: tuple[SavedLine, ...] = ()
    backward: Explanation | None = None
    training: Explanation | None = None

    @staticmethod
    def of(
        plan: ModulePlan, boundaries: tuple[Boundary, ...] = (), hints: SizeHints | None = None
    ) -> Explanation:
        """The explanation of a plan, made under the hints if there were any."""
        kernels = [
            KernelLine(
                step.name,
                KINDS[type(step)],
                tuple(map(str, labels_of(step.covers))),
                step.cost,
                step.why,
                _forms(step),
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
        most = peak(plan.steps, SizeHints.of(plan.graph) if hints is None else hints)
        return Explanation(
            tuple(kernels), tuple(calls), most.bytes, _name(most.step), tuple(between)
        )

    def plans_as(self, other: Explanation) -> bool:
        """Whether both have the same steps, whatever these cost."""
        return self.library_calls == other.library_calls and [
            replace(kernel, cost=Cost(0, 0, 0)) for kernel in self.kernels
        ] == [replace(kernel, cost=Cost(0, 0, 0)) for kernel in other.kernels]

    def as_json(self) -> dict[str, Any]:
        """The symbolic `sizes` assumed, whether what is built `is_built` in this way, `kernels`
        with name, kind, ops, bytes, operations, an H100's floor in microseconds, reason and forms,
        `library_calls` with the operation and the reason, and the memory's peak; the kernels and
        calls of the forward in training in `training`, where that is another one; with a backward,
        also `saved`, the values kept for it and their bytes, and the backward's kernels and calls
        in `backward`."""
        content = {
            "sizes": dict(self.sizes),
            "is_built": self.is_built,
            **self.steps_as_json(),
        }
        if self.training is not None:
            content["training"] = self.training.steps_as_json()
        if self.backward is not None:
            content["saved"] = [vars(value) for value in self.saved]
            content["saved_bytes"] = sum(value.bytes for value in self.saved)
            content["backward"] = self.backward.steps_as_json()
        return content

    def steps_as_json(self) -> dict[str, Any]:
        """`kernels`, `library_calls`, `peak_bytes` and `peak_step` of `as_json` alone."""
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
                    "forms": list(kernel.forms),
                }
                for kernel in self.kernels
            ],
            "library_calls": [{"op": call.op, "why": call.why} for call in self.library_calls],
            "peak_bytes": self.peak_bytes,
            "peak_step": self.peak_step,
        }

    def as_text(self) -> str:
        """The sizes assumed, a table with a line for each kernel and call, and the reasons below
        it; then the same of the forward in training, if that is another one, and of the
        backward."""
        sizes = ", ".join(f"{name} = {size}" for name, size in self.sizes)
        costs = f"Costs are for {sizes}, the" if sizes else "The"
        assumed = [f"{costs} floor is an H100's."]
        if not self.is_built:
            assumed.append("The kernels that are built differ: leave --size out to see them.")
        plans = [*assumed, "", self._plan_text()]
        if self.training is not None:
            plans += ["", "The forward in training:", "", self.training._plan_text()]
        if self.backward is None:
            return "\n".join(plans)
        total = scaled(sum(value.bytes for value in self.saved), "B")
        saved = [
            f"  {value.name}: {value.type}, {scaled(value.bytes, 'B')}" for value in self.saved
        ]
        head = f"In training, {total} are saved for the backward{':' if saved else '.'}"
        parts = [*plans, "", head, *saved, "", "The backward:", ""]
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
                if kernel.forms:
                    console.print("  forms, in the order in which they are tried:", highlight=False)
                for form in kernel.forms:
                    console.print(f"    - {form}", highlight=False)
            for call in self.library_calls:
                console.print(f"{call.op}\n  {call.why}", highlight=False)
            for line in self.boundaries:
                console.print(f"{line.first} | {line.second}: {line.why}", highlight=False)
            total = scaled(self.peak_bytes, "B")
            console.print(
                f"A call allocates {total} at most, in {self.peak_step}.", highlight=False
            )
        return capture.get().strip("\n")


def _name(step: Step) -> str:
    return _label(step) if isinstance(step, LibraryPlan) else step.name


def _forms(step: Step) -> tuple[str, ...]:
    if isinstance(step, ProductPlan):
        return forms_of(step)
    return row_tile_forms(step) if isinstance(step, (AttentionPlan, BackToBackPlan)) else ()


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
