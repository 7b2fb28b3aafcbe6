"""Verification of models that drop: in training it knows the mask, and rejects any other."""

from __future__ import annotations

import pytest
import torch

from fusegen.ir.dtypes import DType
from fusegen.testing import Case, Direction, verify
from tests.testing.mutants import Mutant, small_cases, under_test, verified_mutant

DROPS = """
model Drops(features=36):
    input x: [batch, features]
    return tanh(x) |> dropout(0.3)
"""
KEPT = r"are_kept<vector>\((\w+), (\w+), (\d+), 0\)"
MUTANTS = {
    Direction.FORWARD: Mutant(
        "the number of another dropout",
        DROPS,
        KEPT,
        r"are_kept<vector>(\1, \2, \3, 1)",
        "training_float32.cu",
    ),
    Direction.BACKWARD: Mutant(
        "the mask of other elements",
        DROPS,
        KEPT,
        r"are_kept<vector>(\1, \2 + 4, \3, 0)",
        "training_backward_float32.cu",
    ),
}


def test_right_kernels_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    small_cases(monkeypatch)
    made = under_test(DROPS, forward_only=False)
    result = verify(made, examples=15, seconds=600, dtypes=["float32"])
    assert result.failure is None and result.checked > 5 and result.why_forward_only is None


@pytest.mark.parametrize("direction", MUTANTS)
def test_faults_are_found(direction: Direction, monkeypatch: pytest.MonkeyPatch) -> None:
    is_forward = direction is Direction.FORWARD
    result = verified_mutant(MUTANTS[direction], monkeypatch, forward_only=is_forward)
    assert result.failure is not None, f"{result.checked} cases did not show it"
    assert result.failure.case.training and result.failure.finding.direction is direction


def test_cases_in_training_have_a_seed() -> None:
    subject = under_test(DROPS, forward_only=True)
    assert subject.modes == (False, True)
    case = Case(sizes={"batch": 2})
    assert [tuple(x.shape) for x in case.draw(subject)] == [(2, 36)]
    _, seed = case.draw(subject.in_mode(True))
    assert seed.dtype is torch.int64 and seed.shape == ()
    assert subject.in_mode(True).graph(DType.FLOAT32).dropping == ("",)
