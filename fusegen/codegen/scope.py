"""A kernel's parameters and the names in it: buffers, their strides, sizes, loop variables."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.codegen.c_text import factor, integer, storage_type
from fusegen.codegen.names import Names, identifier
from fusegen.ir.integers import Atom, Integer, Symbol
from fusegen.plan.buffers import Buffer, BufferRole
from fusegen.plan.expressions import (
    Expression,
    Load,
    PartialStates,
    Position,
    Select,
    Size,
    WindowLoad,
    walk,
)
from fusegen.plan.kernels.base import InPlace
from fusegen.plan.kernels.stores import Store


@dataclass(frozen=True)
class Scope:
    """The names a kernel's text uses.

    `loads` are the buffers read, `stores` those written, in the order of the parameters; `strided`
    are those of the former that may come with any strides, as far as they matter. `symbols` names
    sizes and loop variables. `host_sizes` are the sizes that the launcher takes, `sizes`
    those of them that it passes on to the kernel.
    """

    names: Names
    symbols: dict[Atom, str]
    host_sizes: tuple[Symbol, ...]
    sizes: tuple[Symbol, ...]
    loads: tuple[Buffer, ...]
    strided: tuple[Buffer, ...]
    stores: tuple[Buffer, ...]
    buffer_names: dict[str, str]
    in_place: InPlace | None

    @staticmethod
    def of(
        kernel: str,
        values: tuple[Expression, ...],
        stores: tuple[Buffer, ...],
        integers: tuple[Integer, ...],
        host_integers: tuple[Integer, ...] = (),
        *,
        is_packed: bool = False,
        in_place: InPlace | None = None,
    ) -> Scope:
        """The scope of a kernel of that name, that computes `values` into `stores`; `integers` are
        all further expressions its text contains, `host_integers` those of the launcher's. One
        that `is_packed` is launched for contiguous tensors only, and takes no strides. Those of
        `in_place` are the same memory."""
        names = Names(kernel=kernel)
        loads: dict[Buffer, None] = {}
        strided: dict[Buffer, None] = {}
        found: list[Integer] = list(integers)
        for expression in walk(values):
            if isinstance(expression, (Load, PartialStates)):
                loads[expression.buffer] = None
                found.append(expression.offset)
            if isinstance(expression, Load) and _has_strides(expression) and not is_packed:
                strided[expression.buffer] = None
                found += expression.coordinates
            if isinstance(expression, WindowLoad):
                found += (value for guard in expression.guards for value in guard)
            if isinstance(expression, Size):
                found.append(expression.size)
            if isinstance(expression, Position):
                found.append(expression.position)
            if isinstance(expression, Select):
                found += (expression.coordinate, expression.bound)
        shapes = [size for buffer in strided for size in buffer.shape]
        in_kernel = {symbol for value in found for symbol in value.symbols()}
        everywhere = _all_symbols([*found, *shapes, *host_integers])
        buffer_names = {b.name: names.fresh(b.name) for b in (*loads, *stores)}
        sizes = sorted((s for s in everywhere if s.extent is None), key=lambda s: s.name)
        symbols: dict[Atom, str] = {size: names.fresh(size.name) for size in sizes}
        symbols |= {s: identifier(s.name) for s in everywhere if s.extent is not None}
        return Scope(
            names,
            symbols,
            tuple(sizes),
            tuple(size for size in sizes if size in in_kernel),
            tuple(loads),
            tuple(b for b in loads if b in strided),
            tuple(dict.fromkeys(stores)),
            buffer_names,
            in_place,
        )

    def text(self, value: Integer) -> str:
        """An integer expression in this kernel's variables."""
        return integer(value, self.symbols)

    def factor(self, value: Integer) -> str:
        """The same, in parentheses where it is more than a name or number."""
        return factor(value, self.symbols)

    def buffer(self, buffer: Buffer) -> str:
        """The pointer's name."""
        return self.buffer_names[buffer.name]

    def address(self, load: Load, values: dict[Symbol, Integer] | None = None) -> str:
        """The position of a load, in elements, with loop variables replaced by `values`.

        Arguments may come with any strides, so theirs depends on whether all are packed.
        """
        offset = load.offset.substitute(values or {})
        packed = self.text(offset)
        if load.buffer not in self.strided:
            return packed
        coordinates = ", ".join(
            self.text(coordinate.substitute(values or {})) for coordinate in load.coordinates
        )
        return f"packed ? {packed} : {self.buffer(load.buffer)}_strides({coordinates})"

    @property
    def parameters(self) -> tuple[str, ...]:
        """The kernel's parameters: pointers read with their strides, pointers written, sizes."""
        return (
            *(p for b in self.loads for p in self._read_parameters(b)),
            *(f"{storage_type(b.dtype)}{self._pointer(b)}" for b in self.stores),
            *(f"int64_t {self.symbols[size]}" for size in self.sizes),
        )

    def _read_parameters(self, buffer: Buffer) -> tuple[str, ...]:
        name = self.buffer(buffer)
        pointer = f"const {storage_type(buffer.dtype)}{self._pointer(buffer)}"
        if buffer not in self.strided:
            return (pointer,)
        return (pointer, f"Strides<{buffer.type.rank}> {name}_strides")

    def _pointer(self, buffer: Buffer) -> str:
        has_own_memory = self.in_place is None or buffer not in self.in_place.buffers
        return f"* {'__restrict__ ' if has_own_memory else ''}{self.buffer(buffer)}"


def stored_integers(stores: tuple[Store, ...]) -> tuple[Integer, ...]:
    """The positions that stores write to."""
    return tuple(store.position for store in stores)


def _has_strides(load: Load) -> bool:
    """Whether the address depends on strides: an argument's does, but for the first element's."""
    is_argument = load.buffer.role is BufferRole.ARGUMENT
    return is_argument and any(coordinate.terms for coordinate in load.coordinates)


def _all_symbols(values: list[Integer]) -> set[Symbol]:
    found: set[Symbol] = set()
    pending = list(values)
    while pending:
        for symbol in pending.pop().symbols():
            if symbol not in found:
                found.add(symbol)
                if symbol.extent is not None:
                    pending.append(symbol.extent)
    return found
