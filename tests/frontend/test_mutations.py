"""Whatever is done to a program, it is elaborated or refused in words: nothing else is raised."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from fusegen.cli.diagnostics import print_diagnostics
from fusegen.errors import FusegenError, SourceError
from fusegen.frontend import Source, elaborate, parse
from fusegen.frontend.program import Program
from fusegen.testing import source_fuzzing
from fusegen.testing.mutations import SEEDS, mutated
from fusegen.testing.source_fuzzing import fault_of, faults, main, reduced

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("text", SEEDS)
def test_seeds_are_right(text: str) -> None:
    assert elaborate(parse(Source("seed.fuse", text))).graph.outputs


def test_the_frontend_copes_with_any_source() -> None:
    assert faults(seed=1, count=400) == []


@pytest.mark.parametrize("training", [False, True])
def test_mutated_examples(training: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """In both modes, and what the command line shows of their errors."""
    random = Random(2)
    texts = [path.read_text(encoding="utf-8") for path in sorted(EXAMPLES.rglob("*.fuse"))]
    shown = 0
    for _ in range(150):
        text = mutated(random, texts)
        try:
            elaborate(parse(Source("mutated.fuse", text)), training=training)
        except SourceError as failure:
            print_diagnostics(failure.filename, failure.source, failure.diagnostics)
            shown += 1
        except FusegenError as failure:
            assert failure.message
    assert shown > 50
    assert capsys.readouterr().err.count("mutated.fuse:") >= shown


def test_the_same_seed_gives_the_same_sources() -> None:
    first, second = Random(3), Random(3)
    texts = [mutated(first) for _ in range(20)]
    assert [mutated(second) for _ in range(20)] == texts
    assert len(set(texts)) == 20


def break_parser(monkeypatch: pytest.MonkeyPatch, on: str) -> None:
    def parse_or_fail(source: Source) -> Program:
        if on in source.text:
            raise KeyError(on)
        return parse(source)

    monkeypatch.setattr(source_fuzzing, "parse", parse_or_fail)


def test_a_crash_is_found_and_reduced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    break_parser(monkeypatch, on="heads=2")
    assert main(["--sources", "1"]) == 1
    printed = capsys.readouterr().out
    assert "KeyError: 'heads=2'\n'heads=2'\n" in printed
    assert printed.endswith("250 sources, 1 kinds of faults\n")


def test_a_hang_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def parse_for_ever(source: Source) -> Program:
        while True:
            pass

    monkeypatch.setattr(source_fuzzing, "parse", parse_for_ever)
    assert "does not come to an end" in (fault_of("model", seconds=1) or "")


def test_reduction_leaves_what_is_needed() -> None:
    assert reduced("abcdefghij" * 9, lambda text: set("ajc") <= set(text)) == "jac"
