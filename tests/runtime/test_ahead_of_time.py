"""A folder that was built ahead of time runs where fusegen is not."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from fusegen.runtime.ahead_of_time import build_into
from fusegen.runtime.errors import BuildError
from fusegen.runtime.request import namespace_of
from tests.runtime.adder import adder

WITHOUT_FUSEGEN = """
import ctypes, sys, torch
ctypes.CDLL("libfusegen_emulator.so", mode=ctypes.RTLD_GLOBAL)
torch.ops.load_library("adder.so")
total = getattr(torch.ops, sys.argv[1]).add(torch.ones(3), torch.ones(3))
print(total.tolist(), "fusegen" in sys.modules)
"""


def test_folder_runs_without_fusegen(tmp_path: Path) -> None:
    request = adder(offset=0.25)
    folder = tmp_path / "out"
    build_into([request], folder)
    command = [sys.executable, "-c", WITHOUT_FUSEGEN, namespace_of(request)]
    environment = {"LD_LIBRARY_PATH": str(folder), "PATH": "/nowhere"}
    answer = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert answer.stdout == "[2.25, 2.25, 2.25] False\n", answer.stderr


def test_building_again_replaces_the_module(tmp_path: Path) -> None:
    build_into([adder(offset=1.0)], tmp_path)
    first = (tmp_path / "adder.so").read_bytes()
    build_into([adder(offset=2.0)], tmp_path)
    assert (tmp_path / "adder.so").read_bytes() != first


def test_failure_writes_nothing(tmp_path: Path) -> None:
    good = adder()
    broken = dataclasses.replace(good, sources={**good.sources, "adder.cu": "int wrong = missing;"})
    with pytest.raises(BuildError):
        build_into([broken], tmp_path / "out")
    assert not (tmp_path / "out").exists()
