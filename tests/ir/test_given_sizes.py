"""Sizes that follow from others, in terms of these."""

from __future__ import annotations

from fusegen.ir.given_sizes import in_given_sizes
from fusegen.ir.integers import Integer, Symbol


def test_definitions_of_definitions_are_followed() -> None:
    given = Integer.symbol("n")
    inner = Integer.of_atom(Symbol("inner", definition=given - 1))
    outer = Integer.of_atom(Symbol("outer", definition=inner * 2))
    assert in_given_sizes(outer + inner * 3) == given * 5 - 5
    assert in_given_sizes(given * 4) == given * 4
