"""`fusegen tune`: a plain refusal without a GPU, and what a profiler saw by width and kernel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from fusegen.cli.main import main
from fusegen.plan.kernels.product_forms import TileKind
from fusegen.runtime.tile_timing import medians_on_tiles
from fusegen.runtime.tuned_tiles import read_tuned

MODEL = """
model M(width=512):
    input x: [rows, width]
    fc = Linear(width, 2048)
    return gelu(fc(x))
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "m.fuse"
    path.write_text(MODEL)
    return str(path)


def test_no_gpu(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["tune", model, "--dtype", "bfloat16"]) == 1
    error = capsys.readouterr().err
    assert "there is no CUDA GPU here" in error and "fusegen explain" in error


def test_mistakes_are_told_before_a_gpu_is_looked_for(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tune", model, "--size", "row=4"]) == 1
    assert "no symbolic size 'row'" in capsys.readouterr().err
    assert main(["tune", model, "--dtype", "int8"]) == 2


def test_medians_by_width_and_kernel() -> None:
    launches = [
        ("fusegen::fc_gelu_128_tensor_kernel(CUtensorMap_st, int)", 10.0),
        ("fusegen::fc_gelu_128_tensor_kernel(CUtensorMap_st, int)", 90.0),
        ("fusegen::fc_gelu_128_tensor_kernel(CUtensorMap_st, int)", 12.0),
        ("fusegen::fc_gelu_64_tensor_kernel(CUtensorMap_st, int)", 8.0),
        ("fusegen::other_2_64_tensor_kernel(CUtensorMap_st, int)", 7.0),
        ("fusegen::fc_gelu_128_by_2_tensor_kernel(CUtensorMap_st, int)", 6.0),
        ("fusegen::fc_gelu_tensor_kernel(CUtensorMap_st, int)", 1.0),
        ("void fusegen::fc_gelu_kernel<true>(float const*)", 1.0),
        ("Memcpy DtoD (Device -> Device)", 50.0),
    ]
    assert medians_on_tiles(launches) == {
        TileKind(128): {"fc_gelu": 12.0},
        TileKind(64): {"fc_gelu": 8.0, "other_2": 7.0},
        TileKind(128, 2): {"fc_gelu": 6.0},
    }


@pytest.mark.gpu
def test_on_the_gpu(
    model: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Some width is found for each number of rows on a card with warpgroup products."""
    if torch.cuda.get_device_capability()[0] != 9:
        return
    monkeypatch.setenv("FUSEGEN_CACHE_DIR", str(tmp_path))
    assert main(["tune", model, "--dtype", "bfloat16", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (tiles,) = read_tuned().values()
    assert len(tiles) == len(found["products"]) > 8
    assert main(["explain", model, "--dtype", "bfloat16"]) == 0
    assert "as tuned on this card" in " ".join(capsys.readouterr().out.split())
    assert main(["run", model, "--dtype", "bfloat16", "--size", "rows=300"]) == 0
