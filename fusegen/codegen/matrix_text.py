"""Operands of a product as matrices that kernels read from memory by themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fusegen.codegen.c_text import storage_type
from fusegen.codegen.kernel_text import sizes_of
from fusegen.codegen.scope import Scope
from fusegen.ir.integers import ZERO, Atom
from fusegen.plan.kernels.matrix_view import Major, MatrixView, run_stride


@dataclass(frozen=True)
class BatchText:
    """A dim of matrices: the kernel's `parameter` for its stride, which the launcher has as
    `stride`, how many they are, in its terms, too, and the `index` of the matrix at hand in the
    kernel."""

    parameter: str
    stride: str
    count: str
    index: str


@dataclass(frozen=True)
class MatrixText:
    """An operand that is read 16 bytes at a time, in the launcher's terms: `pointer` to its first
    matrix, its strides, and where neighbours are in memory.

    `runs` declares the strides of the tensor's runs of dims, if it has any, and `conditions` are
    those under which the operand can be read this way.
    """

    name: str
    type: str
    pointer: str
    stride: str
    batches: tuple[BatchText, ...]
    neighbours: str
    runs: str
    conditions: tuple[str, ...]

    @property
    def parameters(self) -> tuple[str, ...]:
        """The kernel's parameters for it."""
        return (
            f"const {self.type}* __restrict__ {self.name}_matrices",
            f"int64_t {self.name}_stride",
            *(f"int64_t {dim.parameter}" for dim in self.batches),
        )

    @property
    def arguments(self) -> tuple[str, ...]:
        """What the launcher hands in for these."""
        return (self.pointer, self.stride, *(dim.stride for dim in self.batches))

    @property
    def nothing(self) -> tuple[str, ...]:
        """What it hands in where the kernel does not read this operand as a matrix."""
        return ("nullptr", "0", *("0" for _ in self.batches))

    @property
    def map(self) -> str:
        """The kernel's parameter that describes the matrices to bulk copies."""
        return f"{self.name}_map"

    @property
    def map_type(self) -> str:
        """Its type."""
        return f"MatrixMap<{max(len(self.batches), 1)}>"

    @property
    def counts(self) -> tuple[str, ...]:
        """How many matrices there are in each dim, of which a map has one at least."""
        return tuple(dim.count for dim in self.batches) or ("1",)

    @property
    def batch_strides(self) -> tuple[str, ...]:
        """The launcher's strides between them."""
        return tuple(dim.stride for dim in self.batches) or ("0",)

    @property
    def indices(self) -> tuple[str, ...]:
        """In the kernel, the matrix at hand in each dim."""
        return tuple(dim.index for dim in self.batches) or ("0",)

    @property
    def matrix(self) -> str:
        """In the kernel, the matrix at hand."""
        steps = (f" + {dim.index} * {dim.parameter}" for dim in self.batches)
        return f"{self.name}_matrices{''.join(steps)}"


def matrix_text(name: str, view: MatrixView, kernel: Scope, host: Scope) -> MatrixText:
    """The operand `name`, in the scopes of the kernel and of the launcher."""
    array = f"{name}_run"
    of_runs: dict[Atom, str] = {run_stride(i): f"{array}[{i}]" for i in range(len(view.runs))}
    scope = replace(host, symbols={**host.symbols, **of_runs})
    buffer = scope.buffer(view.buffer)
    pointer = buffer if view.base == ZERO else f"{buffer} + {scope.factor(view.base)}"
    stride = scope.text(view.outer_stride)
    stem = f"{name}_batch_stride"
    batches = tuple(
        BatchText(
            stem if len(view.batches) == 1 else kernel.names.fresh(f"{stem}_{i}"),
            scope.text(dim.stride),
            scope.text(dim.count),
            kernel.factor(dim.index),
        )
        for i, dim in enumerate(view.batches)
    )
    conditions = [f"is_aligned({pointer}, 16)"]
    vector = 16 // view.buffer.dtype.itemsize
    strides = dict.fromkeys((stride, *(dim.stride for dim in batches)))
    conditions += [f"({text}) % {vector} == 0" for text in strides if text != "0"]
    runs = ""
    if view.runs:
        ends = ", ".join(map(str, view.runs))
        runs = f"int64_t {array}[{len(view.runs)}];"
        merged = f"{buffer}_strides, {sizes_of(scope, view.buffer)}, {{{ends}}}, {array}"
        conditions = [
            f"merge_dims({merged})",
            f"{scope.text(view.inner_stride)} == 1",
            *conditions,
        ]
    return MatrixText(
        name,
        storage_type(view.buffer.dtype),
        pointer,
        stride,
        batches,
        "in_columns" if view.major is Major.LINE else "in_depth",
        runs,
        tuple(conditions),
    )
