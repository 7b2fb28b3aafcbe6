"""Random models: always right programs, and the compiler agrees with PyTorch on them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusegen.frontend import Source, elaborate, parse
from fusegen.testing.fuzzing import check_program, main
from fusegen.testing.programs import model_sources


@given(model_sources())
def test_programs_are_right(text: str) -> None:
    graph = elaborate(parse(Source("drawn.fuse", text))).graph
    assert graph.name == "Drawn" and 1 <= len(graph.outputs) <= 3


def test_programs_use_what_the_language_has() -> None:
    seen: set[str] = set()

    @settings(max_examples=150)
    @given(model_sources())
    def collect(text: str) -> None:
        seen.update(re.findall(r"[A-Za-z_]\w*(?=\()|\|>|[-+*/%@<]", text))

    collect()
    assert seen >= {"Linear", "LayerNorm", "softmax", "where", "to", "|>", "@", "*", "+"}


@settings(max_examples=4)
@given(model_sources(most_operations=8), st.data())
def test_the_compiler_agrees_with_pytorch(text: str, data: st.DataObject) -> None:
    check_program(text, data, "emulate")


def test_a_failing_program_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fusegen.testing.fuzzing.check_case", lambda *_: "everything is wrong")
    assert main(["--seconds", "20"]) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("everything is wrong\nCase(") and "model Drawn():" in printed
