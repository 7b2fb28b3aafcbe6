"""Random models: always right programs, and the compiler agrees with PyTorch on them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusegen.frontend import Source, elaborate, parse
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import topological
from fusegen.ops.registry import FUNCTIONS, LAYERS, OPERATORS, UNARY_OPERATORS
from fusegen.testing import calls
from fusegen.testing.case import Case
from fusegen.testing.checks import Finding
from fusegen.testing.fuzzing import Search, check_program, explore, failure_of, main
from fusegen.testing.programs import model_sources
from fusegen.testing.subject import Subject

FLOAT32 = DType.FLOAT32


# What has no function or layer of its own in programs, and why.
NOT_DRAWN: dict[str, str] = {}


@settings(max_examples=30)
@given(model_sources())
def test_programs_are_right(text: str) -> None:
    graph = elaborate(parse(Source("drawn.fuse", text))).graph
    assert graph.name == "Drawn" and 1 <= len(graph.outputs) <= 3


def test_programs_have_everything_in_the_language() -> None:
    texts = "\n".join(text for group in calls.GROUPS for text in group)
    words = set(re.findall(r"[A-Za-z_]\w*", texts))
    assert {*FUNCTIONS, *LAYERS} - words == NOT_DRAWN.keys()
    signs = set(re.findall(r"(?<= )(?:\w+|[^\w\s]+)(?= )", texts))
    assert signs >= OPERATORS.keys()
    assert all(re.search(rf"= {re.escape(sign)} ?{{x}}", texts) for sign in UNARY_OPERATORS)


@settings(max_examples=4)
@given(model_sources(most_operations=8), st.data())
def test_the_compiler_agrees_with_pytorch(text: str, data: st.DataObject) -> None:
    check_program(text, data, "emulate")


def test_failing_programs_are_reduced_and_written(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def check(subject: Subject, case: Case) -> Finding | None:
        names = {node.operation.name for node in topological(subject.graph(FLOAT32).roots)}
        wrong = bool(names & {"add", "sub", "mul"})
        return Finding("v1: 3 of 4 elements are wrong") if wrong else None

    monkeypatch.setattr("fusegen.testing.fuzzing.check_case", check)
    monkeypatch.setattr("fusegen.testing.fuzzing.PROGRAMS_TOGETHER", 8)
    # A second for each look at the clock, so that every machine tries the same programs.
    clock = SimpleNamespace(monotonic=itertools.count().__next__)
    monkeypatch.setattr("fusegen.testing.fuzzing.time", clock)
    standing = SimpleNamespace(monotonic=lambda: 0.0)
    monkeypatch.setattr("fusegen.testing.reduction.time", standing)
    assert main(["--seconds", "80", "--output", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    (path,) = tmp_path.iterdir()
    text = path.read_text(encoding="utf-8")
    assert printed.startswith(text) and printed.endswith(" 1 kinds of failures\n")
    assert text.startswith("# v1: 3 of 4 elements are wrong\n# Case(")
    (operation,) = re.findall(r"^    (?!input|return).*", text, re.MULTILINE)
    assert re.search(r" [-+*] |(add|sub|mul)\(", operation)


def test_what_the_compiler_raises_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(subject: Subject, case: Case) -> Finding | None:
        raise KeyError("v12")

    monkeypatch.setattr("fusegen.testing.fuzzing.check_case", check)
    found = failure_of("model M():\n    input x: [n]\n    return -x\n", Case(), "emulate")
    assert found is not None and found.kind == "KeyError: 'v'" and "model M():" in str(found)


def test_time_that_is_up_where_another_model_had_begun_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second model ends before it has drawn what the first one has: no fault of a strategy."""
    now = [0.0]

    def checks(text: str, cases: st.DataObject, *_: object) -> Iterator[None]:
        cases.draw(st.integers())
        yield None
        now[0] += 20.0

    monkeypatch.setattr("fusegen.testing.fuzzing.model_sources", lambda: st.just("model M()"))
    monkeypatch.setattr("fusegen.testing.fuzzing._checks", checks)
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr("fusegen.testing.fuzzing.time", clock)
    tally = explore(Search(seed=0, seconds=20.0, target="emulate"))
    assert (tally.programs, tally.cases, tally.failures) == (1, 1, ())
