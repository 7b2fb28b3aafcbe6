"""What a right kernel's results may be: derived from the graph and the inputs, element by element.

An element may be as far from the float64 result as rounding errors anywhere in the graph can move
it (`perturbed`), times a factor, and two units in the last place of its own type more; or as near
to eager mode's result, which overflow or underflow on the way can lead elsewhere. What seems wrong
is looked at again: where a value decides, as by a comparison or a remainder, a few samples may all
fall on one side of it, so it may be as near to one of many more that lies beyond the bound itself,
or lie among those that do: what errs on that side may be exact on the other, as a masked gradient.
Where a result is NaN or infinite, it must be so exactly, or in eager mode, or under one of the
perturbations; but where an element may be so far off that it leaves the range of its type, it may
be infinite. Where a sum may overflow on the way, a perturbed result is NaN and the exact one is
not: anything goes. So it does where samples divide by numbers on both sides of 0, or multiply an
infinity by them, and where a convolution's NaN may be of a margin's zeros alone, which is asked at
the second look.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fusegen.ir.graph import Graph, Output, topological
from fusegen.testing.indices import are_among, candidates, ranked_by
from fusegen.testing.interpreter import Sizes, exact, perturbed
from fusegen.testing.poles import Crossings
from fusegen.testing.rounding import Precision

SAMPLES = 8
# Times as many for what seems wrong.
SECOND_LOOK = 8
# A fused kernel keeps values of a 16-bit type in registers, and rounds only those that it stores:
# so do some more samples. What is computed from a value and from its rounding then differs.
SAMPLES_IN_REGISTERS = 4
# The samples show the size of an error's spread; a kernel's own error may lie further out.
SPREAD_FACTOR = 6.0
UNITS_IN_LAST_PLACE = 2.0
# How far beyond the ends of some samples another may lie, as a part of what is between these.
BEYOND_SAMPLES = 0.25


@dataclass(frozen=True)
class Bound:
    """What an output may be: within `allowed` of `exact` (float64, elementwise) or of `eager`, or
    special where eager mode or one of `samples` (in the output's dtype) is in the same way. Indices
    of an extreme may be those of any of the `candidates` for it. Anything goes where elements are
    `lost`, made of quotients without a bound, or, for truth values and integers, of sums that may
    overflow. The samples of a second look are `further` ones, in float64."""

    name: str
    exact: Tensor
    allowed: Tensor
    eager: Tensor
    samples: tuple[Tensor, ...]
    further: tuple[Tensor, ...] = ()
    candidates: Tensor | None = None
    lost: Tensor | None = None

    def violations(self, actual: Tensor) -> Tensor:
        """Which elements of a result are wrong."""
        if not actual.is_floating_point():
            agrees = torch.zeros_like(actual, dtype=torch.bool)
            for alternative in (self.eager, *self.samples):
                agrees |= actual == alternative
            if self.candidates is not None:
                agrees |= are_among(actual, self.candidates)
            else:
                near = (actual.double() - self.exact.double()).abs() <= self.allowed
                agrees |= near & (self.allowed > 0)
            return ~agrees if self.lost is None else ~(agrees | self.lost)
        expected = self.exact.to(actual.dtype)
        right = torch.zeros_like(actual, dtype=torch.bool)
        for centre in (self.exact, self.eager.double()):
            right |= self._reaches(centre, actual)
        for centre in self.further:
            right |= self._is_decided(centre) & self._reaches(centre, actual)
        right |= self._lies_among_decided(actual)
        for alternative in (expected, self.eager, *self.samples):
            special = ~alternative.isfinite()
            right |= special & _same(actual, alternative)
        return ~(right | self._lost)

    def _reaches(self, centre: Tensor, actual: Tensor) -> Tensor:
        """Where a result is as near to a finite `centre` as is allowed; an infinity is, if what is
        allowed ends beyond the type's range on its side."""
        near = (actual.double() - centre).abs() <= self.allowed
        beyond = centre.abs() + self.allowed > torch.finfo(actual.dtype).max
        alike = actual.sign() == centre.sign()
        return centre.isfinite() & torch.where(actual.isinf(), beyond & alike, near)

    def _is_decided(self, centre: Tensor) -> Tensor:
        """Where a sample is further off than errors alone move it."""
        return (centre - self.exact).abs() > self.allowed

    def _lies_among_decided(self, actual: Tensor) -> Tensor:
        """Where a result is among the decided samples on a side of the exact one, or so near to
        them that it may be another."""
        right = torch.zeros_like(actual, dtype=torch.bool)
        for side in (1, -1):
            least = torch.full_like(self.exact, math.inf)
            greatest = -least
            for centre in self.further:
                beyond = self._is_decided(centre) & (side * (centre - self.exact) > 0)
                beyond &= centre.isfinite()
                least = torch.where(beyond, torch.minimum(least, centre), least)
                greatest = torch.where(beyond, torch.maximum(greatest, centre), greatest)
            reach = (0.5 + BEYOND_SAMPLES) * (greatest - least)
            right |= (actual.double() - (least + greatest) / 2).abs() <= reach
        return right

    @property
    def _lost(self) -> Tensor:
        """Where a sum on the way may overflow, or a divisor be 0."""
        overflown = torch.zeros_like(self.exact, dtype=torch.bool)
        for sample in self.samples:
            overflown |= sample.isnan()
        overflown &= ~self.exact.isnan()
        return overflown if self.lost is None else overflown | self.lost

    def excess(self, actual: Tensor) -> Tensor:
        """Each element's error in units of what is allowed; infinite where a special value is
        wrong."""
        wrong = self.violations(actual)
        ratio = (actual.double() - self.exact.double()).abs() / self.allowed
        ratio = torch.where(ratio.isfinite(), ratio, torch.where(wrong, float("inf"), 0.0))
        return torch.where(wrong, ratio.clamp(min=1.0), ratio.clamp(max=1.0))


def bounds(
    graph: Graph,
    tensors: Sequence[Tensor],
    eager: Sequence[Tensor],
    sizes: Sizes,
    precision: Precision,
    looks: int = 1,
) -> tuple[Bound, ...]:
    """The bound for each of the graph's outputs; `tensors` are its inputs, parameters and buffers
    in order, and `eager` PyTorch's results from them in the module's own dtype. There are `looks`
    times as many samples as usual."""
    truth = exact(graph, tensors, sizes)
    crossings = Crossings()
    drawn = [
        perturbed(graph, tensors, sizes, kind, seed, unbounded=crossings.noted(looks > 1))
        for seed, kind in enumerate(precisions(graph, precision, looks))
    ]
    samples = [roots for roots, _ in drawn]
    crossing = [crossings.without_bound()] if looks > 1 else []
    at_poles = [perturbed(graph, tensors, sizes, precision, 0, unbounded=c) for c in crossing]
    usual = len(precisions(graph, precision))
    found = []
    for i, output in enumerate(graph.outputs):
        moved = [sample[i] for sample in samples]
        bound = bound_of(output.name, truth[i], moved, eager[i], usual)
        ranked = ranked_by(output.node)
        if ranked is not None:
            of_ranked = replace(graph, outputs=(Output("ranked", ranked),), updates=(), saved=())
            values = exact(of_ranked, tensors, sizes)
            (limit,) = bounds(of_ranked, tensors, values, sizes, precision)
            near = candidates(output.node, limit.exact, limit.allowed)
            bound = replace(bound, candidates=near)
        lossy = at_poles if output.node.dtype.is_float else [*drawn, *at_poles]
        lost = [losses[i] for _, losses in lossy]
        found.append(replace(bound, lost=torch.stack(lost).any(0)) if lost else bound)
    return tuple(found)


def precisions(graph: Graph, precision: Precision, looks: int = 1) -> list[Precision]:
    """The precision that each sample of a graph has. At further looks there are some that leave the
    range of a type, which show how far errors reach where all others end at an infinity."""
    floats = [node.dtype for node in topological(graph.roots) if node.dtype.is_float]
    is_short = any(dtype.compute is not dtype for dtype in floats)
    in_registers = [replace(precision, in_registers=True)] * SAMPLES_IN_REGISTERS
    usual = [precision] * SAMPLES + (in_registers if is_short else [])
    return usual * looks + [replace(precision, unbounded=True)] * (looks - 1)


def bound_of(
    name: str,
    expected: Tensor,
    moved: Sequence[Tensor],
    eager: Tensor,
    usual: int | None = None,
) -> Bound:
    """The bound for a value by its float64 result, what errors on the way make of that, and
    PyTorch's result in the value's own dtype. The first, `usual` ones of what was moved tell how
    far errors reach, the others are those of a second look."""
    cast = tuple(m.to(eager.dtype) for m in moved)
    usual = len(moved) if usual is None else usual
    moved, further = moved[:usual], tuple(moved[usual:])
    if not eager.is_floating_point():
        return Bound(name, expected, _moved_integers(expected, cast), eager, (expected, *cast))
    spread = torch.zeros_like(expected)
    greatest = torch.finfo(eager.dtype).max
    overflown = expected.abs() > greatest
    for sample in moved:
        overflown &= sample == expected.sign() * math.inf
        # What errors can move beyond the range they can move to anywhere up to its end.
        held = torch.where(sample.isinf(), sample.clamp(-greatest, greatest), sample)
        off = (held - expected).abs()
        spread = torch.maximum(spread, torch.where(off.isfinite(), off, 0.0))
    allowed = SPREAD_FACTOR * spread + UNITS_IN_LAST_PLACE * _last_place(expected, eager.dtype)
    # Not known from the samples, all of which are infinite; but less than half the range is no end.
    allowed = torch.where(overflown, allowed.clamp(max=expected.abs() - greatest / 2), allowed)
    return Bound(name, expected, allowed, eager, cast[:usual], further)


def _moved_integers(expected: Tensor, moved: Sequence[Tensor]) -> Tensor:
    """How far off an integer may be, in float64; 0 for truth values."""
    spread = torch.zeros_like(expected, dtype=torch.float64)
    if expected.dtype is not torch.bool:
        for sample in moved:
            spread = torch.maximum(spread, (sample.double() - expected.double()).abs())
    return SPREAD_FACTOR * spread


def _last_place(value: Tensor, dtype: torch.dtype) -> Tensor:
    """The distance between neighbours of a type at each value."""
    found = torch.finfo(dtype)
    finite = torch.where(value.isfinite(), value.abs(), 0.0)
    return finite.clamp(min=found.tiny) * found.eps


def _same(actual: Tensor, expected: Tensor) -> Tensor:
    return (actual == expected) | (actual.isnan() & expected.isnan())
