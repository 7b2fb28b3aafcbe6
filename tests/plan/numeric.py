"""Integer expressions evaluated directly, without the simplifications under test."""

from __future__ import annotations

from collections.abc import Mapping

from fusegen.ir.integers import Integer, Quotient, Symbol


def evaluate(value: Integer, names: Mapping[str, int]) -> int:
    """The value where symbols have the given numbers, coordinates among them."""
    total = 0
    for monomial, coefficient in value.terms:
        term = coefficient
        for atom in monomial:
            if isinstance(atom, Symbol):
                term *= names[atom.name]
                continue
            above, below = evaluate(atom.numerator, names), evaluate(atom.denominator, names)
            term *= above // below if isinstance(atom, Quotient) else above % below
        total += term
    return total
