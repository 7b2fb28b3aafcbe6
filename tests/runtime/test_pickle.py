"""Modules can be pickled: another process makes their class from the source and its arguments."""

from __future__ import annotations

import copy
import importlib
import io
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import fusegen
from fusegen.runtime.request import Target
from tests.modules import load

MODEL = """\
model Scale(width=4, slope=0.5):
    input x: [n, width]
    weight = Parameter([width], init="normal")
    return leaky_relu(x * weight, slope)
"""
READ = """
import sys, torch
module = torch.load(sys.argv[1], weights_only=False)
x = torch.arange(12.0).view(2, 6) - 5
assert type(module).__name__ == "Scale", type(module)
torch.save((module(x), module.weight.detach(), module.training), sys.argv[2])
"""


@pytest.fixture
def module() -> Any:
    torch.manual_seed(0)
    made = load(MODEL)(width=6)
    made.note = "kept"
    return made.eval()


def read_elsewhere(module: nn.Module, folder: Path, path: Path | None = None) -> Any:
    """What a new process computes with a saved module."""
    torch.save(module, folder / "module.pt")
    command = [sys.executable, "-c", READ, folder / "module.pt", folder / "result.pt"]
    environment = {**os.environ, "PYTHONPATH": str(path or Path(fusegen.__file__).parents[1])}
    answer = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert answer.returncode == 0, answer.stderr
    return torch.load(folder / "result.pt")


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_in_the_same_process(module: Any, protocol: int) -> None:
    copied = pickle.loads(pickle.dumps(module, protocol))
    assert type(copied) is type(module)
    assert copied.note == "kept" and not copied.training
    assert torch.equal(copied.weight, module.weight)
    assert isinstance(copied.weight, nn.Parameter)
    x = torch.randn(3, 6)
    assert torch.equal(copied(x), module(x))
    with torch.no_grad():
        copied.weight.zero_()
    assert module.weight.abs().min() > 0


def test_classes_are_pickled_too() -> None:
    model = load(MODEL)
    assert pickle.loads(pickle.dumps(model)) is model
    fixed = type(model(slope=0.25))
    assert pickle.loads(pickle.dumps(fixed)) is fixed
    assert copy.deepcopy(model) is model


def test_torch_save_as_part_of_another_module(module: Any) -> None:
    whole = nn.Sequential(nn.Linear(6, 6), module)
    file = io.BytesIO()
    torch.save(whole, file)
    file.seek(0)
    again = torch.load(file, weights_only=False)
    x = torch.randn(3, 6)
    assert torch.equal(again(x), whole(x))


@pytest.mark.parametrize("target", [Target.EMULATE, Target.CUDA], ids=["kernels", "reference"])
def test_another_process_loads_it(tmp_path: Path, target: Target) -> None:
    """Neither the file nor the class is there; the cache gives the kernels."""
    module = load(MODEL, target)(6, slope=0.125)
    result, weight, training = read_elsewhere(module, tmp_path)
    assert torch.equal(weight, module.weight)
    assert training
    assert torch.equal(result, module(torch.arange(12.0).view(2, 6) - 5))


def test_another_process_loads_a_compiled_folders_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Its class lies in a file, so it is found by name, without fusegen."""
    (tmp_path / "scale.fuse").write_text(MODEL)
    out = tmp_path / "out"
    fusegen.compile(tmp_path / "scale.fuse", out, arguments={"width": 6}, target="emulate")
    monkeypatch.syspath_prepend(str(out))
    request.addfinalizer(lambda: sys.modules.pop("scale", None))
    module = importlib.import_module("scale").Scale()
    x = torch.arange(12.0).view(2, 6) - 5
    assert torch.equal(copy.deepcopy(module)(x), module(x))
    result, _, _ = read_elsewhere(module, tmp_path, out)
    assert torch.equal(result, module(x))
