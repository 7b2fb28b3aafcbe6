"""The table and the picture of made-up results, and the command line where there is no GPU."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import torch
from rich.console import Console

from benchmarks.__main__ import main
from benchmarks.plot import plot
from benchmarks.record import Record, Row
from benchmarks.suites import SUITES
from benchmarks.table import table

MACHINE = {"card": "A card", "torch": "2.11", "cuda": "13.0", "date": "2026-01-02", "commit": "abc"}


def made_up(case: str, ours: float, **changes: object) -> Row:
    values: dict[str, object] = {
        "suite": "chains",
        "case": case,
        "precision": "bfloat16",
        "mode": "forward",
        "unit": "ms",
        "times": {"fusegen": ours, "eager": 0.5, "compile": 0.3, "product": 0.2},
        "refused": {"max-autotune": "out of memory"},
        "bytes": 10**8,
        "operations": 10**11,
        "floor": 0.18,
        "error": 1e-3,
        "eager_error": 2e-3,
        "bound": 4e-3,
        "deterministic": True,
        "complete": True,
    }
    return Row(**{**values, **changes})  # type: ignore[arg-type]


RECORD = Record(
    MACHINE,
    {"bandwidth": 3e12},
    [
        made_up("one", 0.24, memory={"fusegen": 5 * 10**7, "eager": 9 * 10**7, "product": 10**6}),
        made_up("two", 0.2, error=1.0),
        made_up("three", 9.0, suite="overhead", unit="us", floor=None),
    ],
)


def text(record: Record) -> str:
    stream = io.StringIO()
    Console(file=stream, width=200).print(table(record))
    return stream.getvalue()


def test_table() -> None:
    found = text(RECORD)
    one, two, three = (
        next(line for line in found.splitlines() if f" {name} " in line)
        for name in ("one", "two", "three")
    )
    assert "A card, torch 2.11, 2026-01-02, abc" in found
    assert " 50 " in one and " 90 " in one and " 1 " not in one
    assert "0.24" in one and "75%" in one and "1.25x" in one
    assert "WRONG" in two and "%" not in two and "x" not in two.split("WRONG")[1]
    assert " 9 " in three and "us" in three and "%" not in three


def test_table_of_nothing() -> None:
    assert "A card" in text(Record(MACHINE))


def test_picture(tmp_path: Path) -> None:
    """Of any results: also of what a suite times beside the candidates, and of none."""
    every = sorted({name for suite in SUITES.values() for case in suite() for name in case.beside})
    beside = Record(MACHINE, {}, [made_up("all", 0.2, times=dict.fromkeys(every, 0.1))])
    for record in (RECORD, beside, Record(MACHINE)):
        plot(record, tmp_path / "picture.png")
        assert (tmp_path / "picture.png").read_bytes()[1:4] == b"PNG"


def test_list_and_misuse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    names = ["--suite", "products", "--dtype", "bfloat16", "--only", "4096*", "--mode", "training"]
    assert main([*names, "--list"]) == 0
    assert capsys.readouterr().out == "products: 4096x4096x4096, bfloat16, training\n"
    assert main(names) == 2
    assert "need a GPU" in capsys.readouterr().err
    assert main(["--only", "nonsense"]) == 2
    assert "--list shows" in capsys.readouterr().err
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Another card")
    output = tmp_path / "run.json"
    RECORD.write(output)
    assert main([*names, "--output", str(output)]) == 2
    assert "exists; add --resume" in capsys.readouterr().err
    assert main([*names, "--output", str(output), "--resume"]) == 2
    assert "measured with card A card, not Another card" in capsys.readouterr().err
