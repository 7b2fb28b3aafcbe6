"""Candidates take turns, and what counts is the median of their samples."""

from __future__ import annotations

from collections.abc import Callable

from fusegen.runtime.timing import medians_in_turns


def test_turns_and_medians() -> None:
    calls: list[str] = []
    candidates = {name: lambda name=name: calls.append(name) for name in ("a", "b")}
    times = iter((5.0, 50.0, 1.0, 10.0, 3.0, 90.0))

    def sample(call: Callable[[], object]) -> float:
        call()
        return next(times)

    medians = medians_in_turns(candidates, sample, rounds=3, warm_up=1)
    assert medians == {"a": 3.0, "b": 50.0}
    assert calls == ["a", "b", *("a", "b") * 3]
