"""Sizes set on the command line: those of the model, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fusegen.cli.main import main

MODEL = """\
model Row(width=24):
    input x: [batch, width]
    linear = Linear(width, 8)
    return x |> layer_norm([width]) |> linear |> softmax(dim=1), sum(x, dim=0)
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "row.fuse"
    path.write_text(MODEL)
    return str(path)


@pytest.mark.parametrize("command", [["explain"], ["run", "--target", "emulate"]])
@pytest.mark.parametrize(
    ("size", "hint"),
    [
        ("batsh=4", "did you mean 'batch'?"),
        ("rows=4", "its sizes are 'batch'"),
        ("width=4", "'width' is an argument of the model: set it with -D width=4"),
    ],
)
def test_a_size_the_model_does_not_have(
    command: list[str], size: str, hint: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, model, "--size", size]) == 1
    shown = capsys.readouterr().err
    assert f"model 'Row' has no symbolic size '{size.partition('=')[0]}'" in shown
    assert hint in shown


def test_an_empty_size_is_explained(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", model, "--json", "--size", "batch=0"]) == 0
    kernels = json.loads(capsys.readouterr().out)["kernels"]
    assert {name for kernel in kernels for name in kernel["ops"]} >= {"layer_norm", "softmax"}
