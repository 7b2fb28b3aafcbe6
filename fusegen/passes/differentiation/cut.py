"""The cheapest set of nodes through which everything from sources to sinks must pass."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

N = TypeVar("N", bound=Hashable)

# A node is split into an entry and an exit, between which its own cost is the capacity.
_ENTRY, _EXIT = 0, 1
_Side = tuple[object, int]
_SOURCE: _Side = ("source", _ENTRY)
_SINK: _Side = ("sink", _EXIT)


def cheapest_cut(
    costs: Mapping[N, int | None],
    edges: Iterable[tuple[N, N]],
    sources: Mapping[N, int | None],
    sinks: Iterable[N],
) -> frozenset[N]:
    """The nodes to cut so that no path leads from a source to a sink.

    `costs` are what each node costs to cut, None where it cannot be. `sources` may have a cost too:
    that of cutting them off instead of the nodes behind them. Of equally cheap cuts it is the one
    nearest to the sinks. There must be one. By Ford and Fulkerson's theorem, with Edmonds and
    Karp's choice of paths.
    """
    infinite = 1 + sum(c for c in (*costs.values(), *sources.values()) if c is not None)
    capacity: dict[_Side, dict[_Side, int]] = {}

    def connect(start: _Side, end: _Side, amount: int | None) -> None:
        capacity.setdefault(start, {})[end] = infinite if amount is None else amount
        capacity.setdefault(end, {}).setdefault(start, 0)

    for node, cost in costs.items():
        connect((node, _ENTRY), (node, _EXIT), cost)
    for first, second in edges:
        connect((first, _EXIT), (second, _ENTRY), None)
    for node, cost in sources.items():
        connect(_SOURCE, (node, _ENTRY), cost)
    for node in sinks:
        connect((node, _EXIT), _SINK, None)
    while _augment(capacity):
        pass
    behind = _reaching(capacity)
    return frozenset(n for n in costs if (n, _EXIT) in behind and (n, _ENTRY) not in behind)


def _augment(capacity: dict[_Side, dict[_Side, int]]) -> bool:
    """Send as much as fits along a shortest path with room left; False if there is none."""
    came: dict[_Side, _Side] = {_SOURCE: _SOURCE}
    queue = deque([_SOURCE])
    while queue and _SINK not in came:
        here = queue.popleft()
        for there, room in capacity.get(here, {}).items():
            if room > 0 and there not in came:
                came[there] = here
                queue.append(there)
    if _SINK not in came:
        return False
    path = [_SINK]
    while path[-1] != _SOURCE:
        path.append(came[path[-1]])
    steps = [*zip(path[1:], path[:-1], strict=True)]
    amount = min(capacity[start][end] for start, end in steps)
    for start, end in steps:
        capacity[start][end] -= amount
        capacity[end][start] += amount
    return True


def _reaching(capacity: dict[_Side, dict[_Side, int]]) -> set[_Side]:
    """Everything from which the sink can still be reached."""
    found = {_SINK}
    stack = [_SINK]
    while stack:
        here = stack.pop()
        for before in capacity.get(here, {}):
            if before not in found and capacity[before][here] > 0:
                found.add(before)
                stack.append(before)
    return found
