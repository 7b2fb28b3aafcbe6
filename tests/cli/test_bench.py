"""`fusegen bench`: what a profiler saw goes to the right kernel; no GPU is a plain refusal."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

from fusegen.cli.main import main
from fusegen.compiler.measured import MeasuredModel
from fusegen.runtime.comparison import Comparison, OutputError
from fusegen.runtime.measurement import KernelTime, Measurement, attributed

MODEL = "model M(width=8):\n    input x: [rows, width]\n    return softmax(x, dim=1)\n"


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "m.fuse"
    path.write_text(MODEL)
    return str(path)


@pytest.fixture
def measured() -> MeasuredModel:
    kernels = (
        KernelTime("rows", 12.5, 2_000_000, 300, 10.0),
        KernelTime("finish", None, 10, 20, 0.1),
        KernelTime("other", 3.0, None, None, None),
    )
    totals = {"fusegen": 20.0, "eager": 50.0}
    measurement = Measurement(
        "A card", "float32", 3e12, kernels, 4.5, totals, {"max-autotune": "[no] room"}
    )
    output = OutputError("softmax", (4, 8), 1e-7, 2e-7, 1.2e-7)
    return MeasuredModel(measurement, Comparison("on the GPU", "float32", (output,)))


def test_launches_go_to_the_kernel_whose_name_they_have() -> None:
    launches = [
        ("void fusegen::gemm_kernel<true>(float const*)", 10.0),
        ("fusegen::gemm_tensor_kernel(CUtensorMap_st, int)", 6.0),
        ("void fusegen::gemm_norm_kernel<4, true>(long)", 8.0),
        ("void at::native::vectorized_elementwise_kernel<4, gemm_kernel>()", 4.0),
        ("void fusegen::gemmulate_kernel<1>()", 2.0),
        ("Memset (Device)", 1.0),
    ]
    times, rest = attributed(launches, ["gemm", "gemm_norm", "unseen"], calls=2)
    assert times == {"gemm": 8.0, "gemm_norm": 4.0}
    assert rest == 3.5


def test_text(measured: MeasuredModel) -> None:
    lines = [line.strip() for line in measured.as_text().splitlines()]
    rows = {line.split()[0]: re.split(r"\s{2,}", line) for line in lines if line}
    assert "A card, float32, a copy runs at 3.00 TB/s" in lines
    assert rows["rows"] == ["rows", "12.50 µs", "2 MB", "300", "10.00 µs", "80%"]
    assert rows["finish"][1:] == ["not seen", "10 B", "20", "0.10 µs"]
    assert rows["other"] == ["other", "3.00 µs"]
    assert rows["library"] == ["library calls", "4.50 µs"]
    assert rows["eager"] == ["eager", "50.00 µs", "2.50x"]
    assert "max-autotune is left out: [no] room" in lines
    assert "agrees" in lines[-1]


def test_json(measured: MeasuredModel) -> None:
    found = json.loads(json.dumps(measured.as_json()))
    assert found["kernels"][0] == {
        "name": "rows",
        "time_us": 12.5,
        "bytes": 2_000_000,
        "operations": 300,
        "floor_us": 10.0,
        "of_floor": 0.8,
    }
    assert found["kernels"][1]["of_floor"] is None
    assert found["totals_us"] == {"fusegen": 20.0, "eager": 50.0}
    assert found["comparison"]["agrees"]


def test_no_gpu(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["bench", model]) == 1
    error = capsys.readouterr().err
    assert "there is no CUDA GPU here" in error and "fusegen explain" in error


def test_mistakes_are_told_before_a_gpu_is_looked_for(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", model, "--size", "row=4"]) == 1
    assert "no symbolic size 'row'" in capsys.readouterr().err
    assert main(["bench", model, "--peers", "eager"]) == 2


@pytest.mark.gpu
def test_on_the_gpu(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", model, "--json", "--peers", "--size", "rows=4096"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert all(kernel["time_us"] > 0 for kernel in found["kernels"])
    assert found["comparison"]["agrees"]
