"""What every kernel's text has: its name, comment, parameters and launcher."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass

from fusegen.codegen.c_text import storage_type
from fusegen.codegen.scope import Scope
from fusegen.ir.integers import Symbol
from fusegen.plan.buffers import Buffer
from fusegen.plan.kernels.base import KernelPlan
from fusegen.plan.labels import labels_of

COMMENT_WIDTH = 96


@dataclass(frozen=True)
class Signature:
    """What a kernel's launcher takes, in this order: for each of `reads` a pointer, followed by
    its strides if it is in `strided`; a pointer for each of `writes`; the values of `sizes`; and
    the stream."""

    reads: tuple[Buffer, ...]
    strided: frozenset[Buffer]
    writes: tuple[Buffer, ...]
    sizes: tuple[Symbol, ...]


@dataclass(frozen=True)
class KernelText:
    """The parts of a kernel's text that do not depend on its family.

    `parameters` are the kernel's, `host_parameters` its launcher's, and `arguments` what the
    launcher passes on. `packed` are the conditions under which all tensors read are contiguous;
    `aligned(vector)` those under which wide accesses are aligned.
    """

    name: str
    signature: Signature
    comment: tuple[str, ...]
    parameters: tuple[str, ...]
    host_parameters: tuple[str, ...]
    arguments: tuple[str, ...]
    packed: tuple[str, ...]
    alignments: tuple[tuple[str, int], ...]

    @staticmethod
    def of(plan: KernelPlan, scope: Scope, host: Scope | None = None) -> KernelText:
        """The common text of a plan's kernel; `host` is its launcher's scope where that has more
        buffers than the kernel."""
        host = host or scope
        packed = [contiguous(scope, buffer) for buffer in scope.strided]
        buffers = dict.fromkeys((*scope.loads, *scope.stores))
        return KernelText(
            plan.name,
            Signature(host.loads, frozenset(host.strided), host.stores, host.host_sizes),
            _comment(plan),
            scope.parameters,
            _host_parameters(host),
            kernel_arguments(scope, host),
            tuple(packed) or ("true",),
            tuple((scope.buffer(b), b.dtype.itemsize) for b in buffers),
        )

    def aligned(self, vector: int) -> tuple[str, ...]:
        """The conditions that every buffer allows accesses of `vector` elements."""
        return tuple(
            f"is_aligned({name}, {min(16, itemsize * vector)})"
            for name, itemsize in self.alignments
        )


def contiguous(scope: Scope, buffer: Buffer) -> str:
    """The launcher's condition that a tensor's elements lie in row-major order without gaps."""
    return f"is_contiguous({scope.buffer(buffer)}_strides, {sizes_of(scope, buffer)})"


def aligned(scope: Scope, buffers: Iterable[Buffer], vector: int) -> tuple[str, ...]:
    """The launcher's conditions that the buffers allow accesses of `vector` elements."""
    return tuple(
        f"is_aligned({scope.buffer(b)}, {min(16, b.dtype.itemsize * vector)})" for b in buffers
    )


def sizes_of(scope: Scope, buffer: Buffer) -> str:
    """A tensor's sizes as an initialiser."""
    return f"{{{', '.join(map(scope.text, buffer.shape))}}}"


def _host_parameters(scope: Scope) -> tuple[str, ...]:
    parameters = []
    for buffer in scope.loads:
        parameters.append(f"const {storage_type(buffer.dtype)}* {scope.buffer(buffer)}")
        if buffer in scope.strided:
            parameters.append(f"const int64_t* {scope.buffer(buffer)}_strides")
    parameters += [f"{storage_type(b.dtype)}* {scope.buffer(b)}" for b in scope.stores]
    parameters += [f"int64_t {scope.symbols[size]}" for size in scope.host_sizes]
    return (*parameters, "void* stream")


def kernel_arguments(scope: Scope, host: Scope) -> tuple[str, ...]:
    """What the launcher, whose scope is `host`, passes on to the kernel of `scope`. Either has its
    own name for a size or a buffer where another buffer has the one that was wanted."""
    arguments = []
    for buffer in scope.loads:
        arguments.append(host.buffer(buffer))
        if buffer in scope.strided:
            name = f"{host.buffer(buffer)}_strides"
            arguments.append(f"Strides<{buffer.type.rank}>({name})")
    arguments += [host.buffer(b) for b in scope.stores]
    return (*arguments, *(host.symbols[size] for size in scope.sizes))


def _comment(plan: KernelPlan) -> tuple[str, ...]:
    computed = ", ".join(str(label) for label in labels_of(plan.covers))
    lines = [f"{plan.name}: {computed}.", f"{plan.why[0].upper()}{plan.why[1:]}."]
    return tuple(line for text in lines for line in textwrap.wrap(text, COMMENT_WIDTH))
