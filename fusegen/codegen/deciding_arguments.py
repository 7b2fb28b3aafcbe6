"""Which argument's shape decides which symbolic size."""

from __future__ import annotations

from fusegen.ir.given_sizes import in_given_sizes
from fusegen.ir.integers import Integer, Symbol
from fusegen.plan.buffers import Buffer


def deciding_first(arguments: tuple[Buffer, ...]) -> tuple[Buffer, ...]:
    """The arguments in an order in which those that decide a size come before those that have a
    sum or a multiple of it; in their own order otherwise."""
    rest, order = list(arguments), list[Buffer]()
    decided: set[Symbol] = set()
    while rest:
        chosen = next((b for b in rest if _derived_from(b) <= decided), rest[0])
        rest.remove(chosen)
        order.append(chosen)
        sizes = map(in_given_sizes, chosen.shape)
        decided |= {s for size in sizes for s in size.symbols() if size == Integer.of_atom(s)}
    return tuple(order)


def _derived_from(buffer: Buffer) -> set[Symbol]:
    """The sizes of which a tensor has sums or multiples."""
    sizes = map(in_given_sizes, buffer.shape)
    return {s for size in sizes for s in size.symbols() if size != Integer.of_atom(s)}
