"""How an access moves through memory when a loop variable takes a step."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from fusegen.ir.integers import Integer, Quotient, Remainder, Symbol, divide_exactly


class Access(Enum):
    """What neighbouring loop steps read or write."""

    CONTIGUOUS = "neighbours"  # one wide access does for a whole vector
    UNIFORM = "the same element"
    SCATTERED = "elements apart"


def access(
    position: Integer, step: Integer, vector: int, multiples: tuple[Integer, ...] = ()
) -> Access:
    """How `position` moves over `vector` steps of the loop variable `step`, which starts at a
    multiple of `vector`. `multiples` are sizes known to be multiples of `vector` too."""
    run = _run(position, step.alone, vector, multiples)
    if run is None:
        return Access.SCATTERED
    slope, aligned = run
    if slope == 0:
        return Access.UNIFORM
    return Access.CONTIGUOUS if aligned else Access.SCATTERED


def advances(value: Integer, step: Integer, vector: int) -> bool:
    """Whether `value` grows by 1 with each of `vector` steps of the loop variable `step`."""
    run = _run(value, step.alone, vector, ())
    return run is not None and run[0] == 1


def crossed(position: Integer, step: Integer, vector: int) -> Quotient | None:
    """The quotient by which alone `position` depends on the loop variable, if it has two values at
    most over `vector` steps: it divides neighbouring numbers by a constant that is no less."""
    symbol = step.alone
    for division in sorted(position.divisions(), key=str):
        if isinstance(division, Quotient) and (division.denominator.constant or 0) >= vector:
            is_all = not _depends(position, symbol, besides=division)
            if is_all and advances(division.numerator, step, vector):
                return division
    return None


def _depends(value: Integer, symbol: Symbol, besides: Quotient) -> bool:
    """Whether a value depends on a symbol other than by a quotient."""
    for monomial, _ in value.terms:
        for atom in monomial:
            if atom == symbol:
                return True
            if isinstance(atom, Symbol) or atom == besides:
                continue
            if any(_depends(x, symbol, besides) for x in (atom.numerator, atom.denominator)):
                return True
    return False


def compares_alike(
    coordinate: Integer,
    bound: Integer,
    step: Integer,
    vector: int,
    multiples: tuple[Integer, ...] = (),
) -> bool:
    """Whether `coordinate < bound` is the same over `vector` steps, in the terms of `access`: as
    the coordinate is, or as whole vectors lie on one side."""
    run = _run(coordinate, step.alone, vector, multiples)
    limit = _run(bound, step.alone, vector, multiples)
    if run is None or limit is None or limit[0] != 0:
        return False
    return run[0] == 0 or (run[1] and limit[1])


def _run(
    value: Integer, symbol: Symbol, vector: int, multiples: tuple[Integer, ...]
) -> tuple[int, bool] | None:
    """The change a step (0 or 1), and whether the first value is a multiple of `vector`; None
    where the steps are not even."""
    slope, aligned = 0, True
    for monomial, coefficient in value.terms:
        term = Integer(((monomial, coefficient),))
        if symbol not in term.symbols():
            aligned = aligned and _is_multiple(term, coefficient, vector, multiples)
            continue
        if len(monomial) != 1:
            inner = _constant_factor(term, symbol, vector, multiples)
            if inner is None:
                return None
            aligned = aligned and inner
            continue
        run = _atom_run(monomial[0], symbol, vector, multiples)
        if run is None or (run[0] and coefficient != 1):
            return None
        slope += run[0]
        aligned = aligned and (run[1] or coefficient % vector == 0)
    return (slope, aligned) if slope <= 1 else None


def _is_multiple(
    term: Integer, coefficient: int, vector: int, multiples: tuple[Integer, ...]
) -> bool:
    return coefficient % vector == 0 or any(
        divide_exactly(term, multiple) is not None for multiple in multiples
    )


def _constant_factor(
    term: Integer, symbol: Symbol, vector: int, multiples: tuple[Integer, ...]
) -> bool | None:
    """For a product of atoms that stays the same over the vector: whether it is aligned."""
    ((monomial, coefficient),) = term.terms
    for atom in monomial:
        if symbol in Integer.of_atom(atom).symbols():
            run = _atom_run(atom, symbol, vector, multiples)
            if run is None or run[0]:
                return None
    return _is_multiple(term, coefficient, vector, multiples)


def _atom_run(
    atom: Symbol | Quotient | Remainder, symbol: Symbol, vector: int, multiples: tuple[Integer, ...]
) -> tuple[int, bool] | None:
    if isinstance(atom, Symbol):
        return 1, True
    run = _run(atom.numerator, symbol, vector, multiples)
    if run is None or symbol in atom.denominator.symbols():
        return None
    even = all(
        _is_multiple(Integer(((monomial, coefficient),)), coefficient, vector, multiples)
        for monomial, coefficient in atom.denominator.terms
    )
    if not (run[1] and even):
        return None if run[0] else (0, False)
    return (0, False) if isinstance(atom, Quotient) else run


def even_sizes(positions: Iterable[Integer], step: Integer, vector: int) -> tuple[Integer, ...]:
    """The sizes by which `positions` divide the loop variable: a vector lies within one quotient
    where they are multiples of `vector`."""
    found: dict[Integer, None] = {}
    for position in positions:
        for division in sorted(position.divisions(), key=str):  # a set has no order of its own
            size = division.denominator
            is_size = size.constant is None and not size.divisions()
            fixed = step.alone not in size.symbols()
            if is_size and fixed and advances(division.numerator, step, vector):
                found[size] = None
    return tuple(found)
