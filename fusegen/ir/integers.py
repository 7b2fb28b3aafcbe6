"""Symbolic integers: the sizes of dimensions and the indices computed from coordinates.

An `Integer` is a polynomial with integer coefficients over atoms: symbols, and floor quotients and
remainders that could not be simplified. It is kept in a normal form, so two equal expressions
compare equal, which is how the planner proves that two accesses touch the same element.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import Union  # at run time `|` does not take the forward reference in 3.10


@dataclass(frozen=True)
class Symbol:
    """A name that stands for a number: a size (at least 1 inside a kernel), or, with an `extent`,
    a coordinate that runs from 0 to `extent - 1`. A size may be defined by others."""

    name: str
    extent: Integer | None = None
    definition: Integer | None = None

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Quotient:
    """`numerator // denominator`, rounded down, of a non-negative numerator."""

    numerator: Integer
    denominator: Integer

    def __str__(self) -> str:
        return f"({self.numerator}) // ({self.denominator})"


@dataclass(frozen=True)
class Remainder:
    """`numerator % denominator` of a non-negative numerator."""

    numerator: Integer
    denominator: Integer

    def __str__(self) -> str:
        return f"({self.numerator}) % ({self.denominator})"


Atom = Symbol | Quotient | Remainder
Monomial = tuple[Atom, ...]  # a product, its factors sorted by name; the empty one is 1
IntegerLike = Union["Integer", int]


@dataclass(frozen=True)
class Integer:
    """A sum of products of atoms; `terms` are sorted, with no zero coefficient."""

    terms: tuple[tuple[Monomial, int], ...]

    @staticmethod
    def of(value: IntegerLike) -> Integer:
        """`value` itself, or the constant expression for a Python int."""
        if isinstance(value, Integer):
            return value
        return Integer((((), value),) if value else ())

    @staticmethod
    def of_atom(atom: Atom) -> Integer:
        """The expression that is just the atom."""
        return Integer((((atom,), 1),))

    @staticmethod
    def symbol(name: str, extent: IntegerLike | None = None) -> Integer:
        """The expression for one size, or for one coordinate below `extent`."""
        limit = None if extent is None else Integer.of(extent)
        return Integer.of_atom(Symbol(name, limit))

    @cached_property
    def _hash(self) -> int:
        return hash(self.terms)

    def __hash__(self) -> int:
        return self._hash

    @property
    def constant(self) -> int | None:
        """The number it is, or None if it depends on a symbol."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and self.terms[0][0] == ():
            return self.terms[0][1]
        return None

    @property
    def alone(self) -> Symbol:
        """The symbol that the expression is, such as a loop variable."""
        ((monomial, coefficient),) = self.terms
        (atom,) = monomial
        assert isinstance(atom, Symbol) and coefficient == 1, f"{self} is no symbol"
        return atom

    def symbols(self) -> frozenset[Symbol]:
        """Every symbol in it, those inside quotients and remainders too."""
        found: set[Symbol] = set()
        for monomial, _ in self.terms:
            for atom in monomial:
                if isinstance(atom, Symbol):
                    found.add(atom)
                else:
                    found |= atom.numerator.symbols() | atom.denominator.symbols()
        return frozenset(found)

    def __add__(self, other: IntegerLike) -> Integer:
        return _combine((*self.terms, *Integer.of(other).terms))

    __radd__ = __add__

    def __neg__(self) -> Integer:
        return Integer(tuple((m, -c) for m, c in self.terms))

    def __sub__(self, other: IntegerLike) -> Integer:
        return self + -Integer.of(other)

    def __rsub__(self, other: IntegerLike) -> Integer:
        return Integer.of(other) + -self

    def __mul__(self, other: IntegerLike) -> Integer:
        other = Integer.of(other)
        return _combine((_product(m, n), c * d) for m, c in self.terms for n, d in other.terms)

    __rmul__ = __mul__

    def __floordiv__(self, other: IntegerLike) -> Integer:
        divisor = Integer.of(other)
        whole, rest = _split(self, divisor)
        if is_below(rest, divisor):
            return whole
        if rest.constant is not None and divisor.constant is not None:
            return whole + rest.constant // divisor.constant
        for factor in _common_factors(rest, divisor):
            above, below = _split(rest, factor)
            if is_below(below, factor):  # (f * a + b) // (f * g) == a // g for b < f
                return whole + above // _whole_quotient(divisor, factor)
        return whole + _quotient(rest, divisor)

    def __mod__(self, other: IntegerLike) -> Integer:
        divisor = Integer.of(other)
        _, rest = _split(self, divisor)
        if is_below(rest, divisor):
            return rest
        if rest.constant is not None and divisor.constant is not None:
            return Integer.of(rest.constant % divisor.constant)
        for factor in _common_factors(rest, divisor):
            above, below = _split(rest, factor)
            if is_below(below, factor):  # (f * a + b) % (f * g) == f * (a % g) + b for b < f
                return factor * (above % _whole_quotient(divisor, factor)) + below
        return Integer.of_atom(Remainder(rest, divisor))

    def divisions(self) -> frozenset[Quotient | Remainder]:
        """Every quotient and remainder in it, those inside others too."""
        found: set[Quotient | Remainder] = set()
        for monomial, _ in self.terms:
            for atom in monomial:
                if not isinstance(atom, Symbol):
                    found.add(atom)
                    found |= atom.numerator.divisions() | atom.denominator.divisions()
        return frozenset(found)

    def substitute(self, values: Mapping[Symbol, IntegerLike]) -> Integer:
        """The expression with symbols replaced, simplified again."""
        if not any(symbol in values for symbol in self.symbols()):
            return self
        total = Integer(())
        for monomial, coefficient in self.terms:
            term = Integer.of(coefficient)
            for atom in monomial:
                if isinstance(atom, Symbol):
                    term = term * values.get(atom, Integer.of_atom(atom))
                elif isinstance(atom, Quotient):
                    term = term * (
                        atom.numerator.substitute(values) // atom.denominator.substitute(values)
                    )
                else:
                    term = term * (
                        atom.numerator.substitute(values) % atom.denominator.substitute(values)
                    )
            total = total + term
        return total

    def evaluate(self, sizes: Mapping[str, int]) -> int:
        """Its value for given sizes, by symbol name; KeyError names a symbol that has none."""
        values = {
            s: s.definition.evaluate(sizes) if s.definition is not None else sizes[s.name]
            for s in self.symbols()
        }
        bound = self.substitute(values).constant
        assert bound is not None
        return bound

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        parts = []
        for monomial, coefficient in self.terms:
            factors = [str(atom) if isinstance(atom, Symbol) else f"({atom})" for atom in monomial]
            if coefficient != 1 or not factors:
                factors.insert(0, str(coefficient))
            parts.append(" * ".join(factors))
        return " + ".join(parts).replace("+ -", "- ")


ZERO = Integer(())
ONE = Integer.of(1)


def product(values: Iterable[IntegerLike]) -> Integer:
    """The product of sizes; 1 for none."""
    result = ONE
    for value in values:
        result = result * value
    return result


def is_below(value: Integer, limit: Integer) -> bool:
    """Whether `0 <= value < limit` can be proved, every size being at least 1."""
    if not all(c > 0 and _is_natural(m) for m, c in value.terms):
        return False
    return is_never_negative(limit - 1 - maximum(value))


def is_never_negative(value: Integer) -> bool:
    """Whether `value >= 0` can be proved, every size being at least 1 and coordinate at least 0."""
    plain: list[tuple[Monomial, int]] = []
    for monomial, coefficient in value.terms:
        if all(isinstance(atom, Symbol) for atom in monomial):
            plain.append((monomial, coefficient))
        elif coefficient < 0:  # quotients and remainders are never negative
            return False
    rest = Integer(tuple(plain))
    raised = {s: Integer.of_atom(s) + 1 for s in rest.symbols() if s.extent is None}
    return all(c >= 0 for _, c in rest.substitute(raised).terms)


def maximum(value: Integer) -> Integer:
    """An upper bound of an expression with positive coefficients, over all its coordinates."""
    total = ZERO
    for monomial, coefficient in value.terms:
        term = Integer.of(coefficient)
        for atom in monomial:
            if isinstance(atom, Remainder):
                term = term * (atom.denominator - 1)
            elif isinstance(atom, Quotient):
                end = maximum(atom.numerator) + 1
                whole = divide_exactly(end, atom.denominator)
                term = term * (end // atom.denominator if whole is None else whole - 1)
            elif atom.extent is not None:
                term = term * (atom.extent - 1)
            else:
                term = term * Integer.of_atom(atom)
        total = total + term
    return total


def divide_exactly(value: Integer, divisor: Integer) -> Integer | None:
    """`value / divisor` if `divisor` divides it as a polynomial, else None."""
    quotient = ZERO
    rest = value
    while rest.terms:
        step = _divide_term(rest.terms[-1], divisor.terms[-1]) if divisor.terms else None
        if step is None or len(quotient.terms) > len(value.terms):
            return None
        quotient = quotient + step
        rest = rest - step * divisor
    return quotient


def _is_natural(monomial: Monomial) -> bool:
    return all(
        isinstance(atom, Symbol) or all(c > 0 for _, c in atom.numerator.terms) for atom in monomial
    )


def _key(atom: Atom) -> str:
    """What atoms are sorted by: a coordinate is told from a size of the same name."""
    if isinstance(atom, Symbol) and atom.extent is not None:
        return f"{atom} below {atom.extent}"
    return str(atom)


def _product(first: Monomial, second: Monomial) -> Monomial:
    return tuple(sorted(first + second, key=_key))


def _combine(terms: Iterable[tuple[Monomial, int]]) -> Integer:
    sums: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        sums[monomial] = sums.get(monomial, 0) + coefficient
    kept = [(m, c) for m, c in sums.items() if c]
    kept.sort(key=lambda term: (len(term[0]), [_key(a) for a in term[0]]))
    return _rejoin(Integer(tuple(kept)))


def _rejoin(value: Integer) -> Integer:
    """Replace `k * (x // k) + x % k` by `x`, also under a common factor."""
    for monomial, coefficient in value.terms:
        for position, atom in enumerate(monomial):
            if not isinstance(atom, Remainder):
                continue
            others = Integer(((monomial[:position] + monomial[position + 1 :], coefficient),))
            pair = others * atom.denominator * _quotient(atom.numerator, atom.denominator)
            present = dict(value.terms)
            if pair.terms and all(present.get(m) == c for m, c in pair.terms):
                return value - pair - Integer(((monomial, coefficient),)) + others * atom.numerator
    return value


def _quotient(numerator: Integer, denominator: Integer) -> Integer:
    if len(numerator.terms) == 1 and numerator.terms[0][1] == 1 and len(numerator.terms[0][0]) == 1:
        inner = numerator.terms[0][0][0]
        if isinstance(inner, Quotient):  # (x // a) // b == x // (a * b)
            return Integer.of_atom(Quotient(inner.numerator, inner.denominator * denominator))
    return Integer.of_atom(Quotient(numerator, denominator))


def _split(value: Integer, divisor: Integer) -> tuple[Integer, Integer]:
    """`value == whole * divisor + rest`, with as much as possible in `whole`.

    Of a number, the rest has what is left of the sum's constant, which is not negative: so the rest
    of a value that is not negative is none either, where its other terms are not.
    """
    if divisor == ONE:
        return value, ZERO
    whole, rest = ZERO, value
    if len(divisor.terms) == 1:
        for term in value.terms:
            step = _divide_term(term, divisor.terms[0])
            if step is not None:
                whole, rest = whole + step, rest - Integer((term,))
        if divisor.constant is not None:
            constant = sum(c for monomial, c in rest.terms if monomial == ())
            steps = constant // divisor.constant
            whole, rest = whole + steps, rest - steps * divisor.constant
        return whole, rest
    # The divisor is a sum: divide what each symbol is multiplied by, coordinates before sizes.
    for symbol in sorted(value.symbols(), key=lambda s: (s.extent is None, s.name)):
        coefficient = Integer(
            tuple(
                (tuple(a for a in m if a != symbol), c)
                for m, c in rest.terms
                if m.count(symbol) == 1
            )
        )
        step = divide_exactly(_combine(coefficient.terms), divisor)
        if step is not None and step.terms:
            part = step * Integer.of_atom(symbol)
            whole, rest = whole + part, rest - part * divisor
    return whole, rest


def _common_factors(value: Integer, divisor: Integer) -> tuple[Integer, ...]:
    """What a divisor of one term has in common with terms of `value`, without 1 and itself."""
    if len(divisor.terms) != 1:
        return ()
    ((monomial, number),) = divisor.terms
    found: dict[Integer, None] = {}
    for atoms, coefficient in value.terms:
        left = list(atoms)
        shared = []
        for atom in monomial:
            if atom in left:
                left.remove(atom)
                shared.append(atom)
        found[Integer(((tuple(shared), gcd(coefficient, number)),))] = None
    return tuple(factor for factor in found if factor not in (ONE, divisor))


def _whole_quotient(value: Integer, factor: Integer) -> Integer:
    quotient = divide_exactly(value, factor)
    assert quotient is not None
    return quotient


def _divide_term(term: tuple[Monomial, int], divisor: tuple[Monomial, int]) -> Integer | None:
    (monomial, coefficient), (by, number) = term, divisor
    if coefficient % number:
        return None
    left = list(monomial)
    for atom in by:
        if atom not in left:
            return None
        left.remove(atom)
    return Integer(((tuple(left), coefficient // number),))
