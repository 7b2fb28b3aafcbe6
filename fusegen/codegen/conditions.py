"""The conditions under which a side of a selection is chosen."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fusegen.ir.integers import Integer


@dataclass(frozen=True)
class Condition:
    """That `coordinate < bound`, or that it is not."""

    coordinate: Integer
    bound: Integer
    holds: bool = True

    @property
    def negated(self) -> Condition:
        """The opposite."""
        return replace(self, holds=not self.holds)


def essential(conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """The conditions without those that others imply: of the constants that a coordinate is not
    below, the greatest is enough."""
    greatest: dict[Integer, int] = {}
    for condition in conditions:
        bound = condition.bound.constant
        if not condition.holds and bound is not None:
            greatest[condition.coordinate] = max(bound, greatest.get(condition.coordinate, bound))

    def is_implied(condition: Condition) -> bool:
        bound = condition.bound.constant
        if condition.holds or bound is None:
            return False
        return bound < greatest[condition.coordinate]

    return tuple(condition for condition in conditions if not is_implied(condition))


def divides_by_no_size(condition: Condition) -> bool:
    """Whether a condition can be evaluated whatever the sizes are, of which one may be 0."""
    divisions = condition.coordinate.divisions() | condition.bound.divisions()
    return all(division.denominator.constant is not None for division in divisions)
