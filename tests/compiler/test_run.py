"""`fusegen run`: the comparison, and that it tells right from wrong."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

from fusegen.cli.main import main
from fusegen.runtime.comparison import OutputError, error

MODEL = """\
model Row(width=24):
    input x: [batch, width]
    input mask: bool[batch, width]
    return softmax(where(mask, x, -4), dim=1), argmax(x, dim=1)
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "row.fuse"
    path.write_text(MODEL)
    return str(path)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_run(model: str, dtype: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", model, "--target", "emulate", "--size", "batch=3", "--json"]
    assert main([*command, "--dtype", dtype, "--seed", "7"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["agrees"] and found["dtype"] == dtype
    assert [output["shape"] for output in found["outputs"]] == [[3, 24], [3]]


def test_text(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", model, "--target", "emulate"]) == 0
    text = capsys.readouterr().out
    assert "float32 in the emulator" in text
    assert text.count("agrees") == 2


INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("actual", "exact", "expected"),
    [
        ([1.0, 2.5], [1.0, 2.0], 0.25),
        ([1.0, INF], [1.0, INF], 0.0),
        ([1.0, -INF], [1.0, INF], NAN),
        ([1.0, 5.0], [1.0, INF], NAN),
        ([NAN, 1.0], [1.0, 1.0], NAN),
        ([NAN, 1.0], [NAN, 1.0], 0.0),
        ([1.0, 0.0], [NAN, 0.0], NAN),
        ([0.5], [0.0], 0.5),
        ([], [], 0.0),
    ],
)
def test_error(actual: list[float], exact: list[float], expected: float) -> None:
    found = error(torch.tensor(actual), torch.tensor(exact))
    assert found == expected or (math.isnan(found) and math.isnan(expected))


@pytest.mark.parametrize(
    ("kernels", "pytorch", "agrees"),
    [
        (2e-6, 1e-6, True),
        (3e-6, 1e-6, False),
        (4e-7, 0.0, True),
        (5e-7, 0.0, False),
        (NAN, 1.0, False),
    ],
)
def test_verdict(kernels: float, pytorch: float, agrees: bool) -> None:
    unit = torch.finfo(torch.float32).eps
    assert OutputError("y", (1,), kernels, pytorch, unit).agrees is agrees


@pytest.mark.parametrize(
    ("size", "reason"),
    [(10**12, "memory"), (2**62, "PyTorch cannot compute"), (0, "PyTorch cannot compute")],
)
def test_sizes_that_pytorch_refuses(
    size: int, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "least.fuse"
    path.write_text("model Least():\n    input x: [n, 999]\n    return amin(x)\n")
    assert main(["run", str(path), "--target", "emulate", "--size", f"n={size}"]) == 1
    shown = capsys.readouterr().err
    assert reason in shown and "set others with --size" in shown
