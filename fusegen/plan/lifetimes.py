"""How long the buffers of a plan are needed, and how much memory a call of it takes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from fusegen.plan.buffers import Buffer, BufferRole
from fusegen.plan.cost import SizeHints
from fusegen.plan.expressions import Load, PartialStates, walk
from fusegen.plan.kernels.convolution import ConvolutionPlan
from fusegen.plan.kernels.library import LibraryPlan
from fusegen.plan.kernels.module import Step, in_place_of

# Memory is worth giving back early if it is at least this part of the largest buffer's.
WORTH = 256


@dataclass(frozen=True)
class Peak:
    """The most bytes that a call has allocated at once, and the step in which it has."""

    bytes: int
    step: Step


def buffers_read(step: Step) -> tuple[Buffer, ...]:
    """The buffers whose elements a step reads and does not write itself."""
    if isinstance(step, LibraryPlan):
        return tuple(dict.fromkeys(step.operands))
    values = step.values
    if isinstance(step, ConvolutionPlan):
        values = (step.input, step.weight, *values)
    loads = (e.buffer for e in walk(values) if isinstance(e, (Load, PartialStates)))
    return tuple(dict.fromkeys(loads))


def last_uses(steps: tuple[Step, ...]) -> tuple[tuple[Buffer, ...], ...]:
    """For each step the buffers that no later one reads or fills, results left out."""
    last: dict[Buffer, int] = {}
    for number, step in enumerate(steps):
        last |= dict.fromkeys((*buffers_read(step), *step.written), number)
    kept = (b for b in last if b.role is not BufferRole.RESULT)
    by_step: list[list[Buffer]] = [[] for _ in steps]
    for buffer in kept:
        by_step[last[buffer]].append(buffer)
    return tuple(map(tuple, by_step))


def large_buffers(steps: tuple[Step, ...], hints: SizeHints) -> frozenset[Buffer]:
    """The buffers whose memory is worth giving back early."""
    sizes = {b: hints.value(b.bytes) for s in steps for b in (*buffers_read(s), *s.written)}
    least = max(sizes.values()) / WORTH
    return frozenset(buffer for buffer, size in sizes.items() if size >= least)


def releases(
    steps: tuple[Step, ...], spent: Collection[Buffer], hints: SizeHints
) -> tuple[tuple[Buffer, ...], ...]:
    """For each step the buffers that a call gives back behind it, small ones left out: workspaces,
    and of the arguments those of `spent`, which the caller has no further use for. None behind the
    last step, where the call ends."""
    large = large_buffers(steps, hints)

    def is_given_back(buffer: Buffer) -> bool:
        is_unused = buffer.role is BufferRole.WORKSPACE or buffer in spent
        return is_unused and buffer in large

    *early, _ = last_uses(steps)
    return (*(tuple(filter(is_given_back, buffers)) for buffers in early), ())


def peak(steps: tuple[Step, ...], hints: SizeHints) -> Peak:
    """The peak of what a call allocates: its results, and workspaces until their last use."""
    found: Peak | None = None
    allocated: dict[Buffer, int] = {}
    for step, ended in zip(steps, last_uses(steps), strict=True):
        in_place = in_place_of(step)
        own = (b for b in step.written if in_place is None or b is not in_place.written)
        allocated |= {b: hints.value(b.bytes) for b in own}
        total = sum(allocated.values())
        if found is None or total > found.bytes:
            found = Peak(total, step)
        if in_place is not None:
            allocated[in_place.written] = allocated[in_place.read]
        for buffer in ended:
            allocated.pop(buffer, None)
    assert found is not None, "a plan has steps"
    return found
