"""Verification of models with running statistics: in training, those of batches are compared."""

from __future__ import annotations

import pytest

from fusegen.testing import Direction, verify
from tests.testing.mutants import Mutant, small_cases, under_test, verified_mutant

NORMED = """
model Normed(features=6):
    input x: [batch, features, height]
    norm = BatchNorm1d(features)
    return x |> norm |> relu
"""
MUTANTS = {
    Direction.FORWARD: Mutant(
        "the biased variance for the running statistics",
        NORMED,
        r"fusegen::maximum\((\w+), 0\.0f\)",
        r"(\1 + 1.0f)",
        "training_float32.cu",
    ),
    Direction.BACKWARD: Mutant(
        "a batch's variance taken for a constant",
        NORMED,
        r"(cache_1\w*\[step\]\[element\]) \*",
        r"0.0f * \1 *",
        "training_backward_float32.cu",
    ),
}


def test_right_kernels_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    small_cases(monkeypatch)
    made = under_test(NORMED, forward_only=False)
    assert made.modes == (False, True)
    result = verify(made, examples=20, seconds=600, dtypes=["float32"])
    assert result.failure is None and result.checked > 8


@pytest.mark.parametrize("direction", MUTANTS)
def test_faults_are_found(direction: Direction, monkeypatch: pytest.MonkeyPatch) -> None:
    is_forward = direction is Direction.FORWARD
    result = verified_mutant(MUTANTS[direction], monkeypatch, forward_only=is_forward)
    assert result.failure is not None, f"{result.checked} cases did not show it"
    assert result.failure.case.training and result.failure.finding.direction is direction
    if is_forward:
        assert result.failure.finding.headline.startswith("variance of norm's batch: ")
