"""Loading: the operators compute, and versions live side by side in one process."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch

from fusegen.runtime.builder import build
from fusegen.runtime.loader import emulator_runtime, find_libraries
from fusegen.runtime.request import BuildRequest
from tests.runtime.adder import adder

A = torch.arange(100, dtype=torch.float32)
B = torch.full((100,), 0.5)


def load_operators(request: BuildRequest) -> Any:
    """What an emitted module does with the library it is given."""
    ((namespace, library),) = find_libraries([request])
    operators = getattr(torch.ops, namespace)
    if not hasattr(operators, "add"):
        torch.ops.load_library(library)
    return operators


def test_operator_computes() -> None:
    operators = load_operators(adder(offset=1.0))
    assert torch.equal(operators.add(A, B), A + 1.5)


def test_two_versions_in_one_process() -> None:
    """Edit and compile again: both versions go on working, each with its own kernel."""
    old = load_operators(adder(offset=10.0))
    new = load_operators(adder(offset=20.0))
    assert torch.equal(new.add(A, B), A + 20.5)
    assert torch.equal(old.add(A, B), A + 10.5)


def test_loading_again_gives_the_same_operators() -> None:
    first = load_operators(adder(offset=2.0))
    assert load_operators(adder(offset=2.0)) is first
    assert torch.equal(first.add(A, B), A + 2.5)


def test_module_already_loaded_from_an_ahead_of_time_folder(tmp_path: Path) -> None:
    """The same sources from two places would register twice, which ends the process."""
    request = adder(offset=3.0)
    emulator_runtime()
    torch.ops.load_library(str(build(request, tmp_path / "ahead of time")))
    operators = load_operators(request)
    assert torch.equal(operators.add(A, B), A + 3.5)


def test_empty_tensor() -> None:
    operators = load_operators(adder(offset=4.0))
    assert operators.add(A[:0], B[:0]).shape == (0,)


def test_checked_build_runs_with_the_checker_off() -> None:
    request = dataclasses.replace(adder(offset=5.0), check=True)
    operators = load_operators(request)
    assert torch.equal(operators.add(A, B), A + 5.5)
