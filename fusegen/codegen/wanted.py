"""Which of an operator's results a caller wants: the bits of its last argument, `wanted`."""

from __future__ import annotations

# The last bit of an int64 that `wanted` uses: it stands for all results from there on.
LAST_BIT = 62


def wanted_bit(result: int) -> int:
    """The bit of `wanted` that asks for the result at that position."""
    return 1 << min(result, LAST_BIT)


def wants_any(results: frozenset[int]) -> str:
    """The C++ condition that one of the results is wanted."""
    bits = 0
    for result in results:
        bits |= wanted_bit(result)
    return f"wanted & {hex(bits)}"
