"""Sizes in terms of those that they follow from."""

from __future__ import annotations

from fusegen.ir.integers import Integer


def in_given_sizes(size: Integer) -> Integer:
    """A size in terms of those that tensors decide, none of them defined by others."""
    defined = {s: s.definition for s in size.symbols() if s.definition is not None}
    return in_given_sizes(size.substitute(defined)) if defined else size
