"""Operands of a product as matrices that kernels read from memory by themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fusegen.codegen.c_text import storage_type
from fusegen.codegen.kernel_text import sizes_of
from fusegen.codegen.scope import Scope
from fusegen.ir.integers import ZERO, Atom
from fusegen.plan.kernels.matrix_view import Major, MatrixView, run_stride


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
    batch_stride: str
    neighbours: str
    runs: str
    conditions: tuple[str, ...]


def matrix_text(name: str, view: MatrixView, host: Scope) -> MatrixText:
    """The operand `name`, seen from the launcher, whose scope is `host`."""
    array = f"{name}_run"
    strides: dict[Atom, str] = {run_stride(i): f"{array}[{i}]" for i in range(len(view.runs))}
    scope = replace(host, symbols={**host.symbols, **strides})
    buffer = scope.buffer(view.buffer)
    pointer = buffer if view.base == ZERO else f"{buffer} + {scope.factor(view.base)}"
    stride, batch_stride = scope.text(view.outer_stride), scope.text(view.batch_stride)
    conditions = [f"is_aligned({pointer}, 16)"]
    vector = 16 // view.buffer.dtype.itemsize
    conditions += [f"({text}) % {vector} == 0" for text in (stride, batch_stride) if text != "0"]
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
        batch_stride,
        "in_columns" if view.major is Major.LINE else "in_depth",
        runs,
        tuple(conditions),
    )
