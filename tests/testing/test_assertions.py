"""Assertions that users' test suites call."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from fusegen.testing import (
    assert_matches_reference,
    assert_verified,
    assertions,
    awkward_tensors,
    subject,
)
from tests.modules import load

EXAMPLES = Path(__file__).parents[2] / "examples"
MODEL = """
model Gated(features=12):
    input x: [batch, features]
    fc = Linear(features, features)
    return fc(x) |> silu |> layer_norm((features,))
"""
MODULE = load(MODEL)()


@settings(max_examples=20)
@given(awkward_tensors((3, 12)))
def test_a_right_module_matches(x: Tensor) -> None:
    assert_matches_reference(MODULE, x)


@given(st.sampled_from([torch.float16, torch.bfloat16, torch.float64]))
def test_the_dtype_is_the_modules(dtype: torch.dtype) -> None:
    module = load(MODEL)(dtype=dtype)
    assert_matches_reference(module, torch.randn(5, 12).to(dtype), forward_only=True)


def test_a_wrong_module_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assertions, "first_parting", lambda *_: "silu(fc(x))")
    module = load(MODEL)()
    right = type(module).forward
    monkeypatch.setattr(type(module), "forward", lambda self, x: right(self, x) * 1.01)
    shown = r"36 of 36 elements are wrong\nat .*\nthe values part in the forward at: silu\(fc"
    with pytest.raises(AssertionError, match=shown):
        assert_matches_reference(module, torch.randn(3, 12))


def test_gradients_must_match_if_not_forward_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assertions, "first_parting", lambda *_: None)
    module = load(MODEL)()
    module.fc.weight.requires_grad_(False)
    right = type(module).forward

    def forward(self: nn.Module, x: Tensor) -> Tensor:
        y = right(self, x)
        doubled: Tensor = y * 2 - y.detach()
        return doubled

    monkeypatch.setattr(type(module), "forward", forward)
    x = torch.randn(3, 12)
    assert_matches_reference(module, x, forward_only=True)
    with pytest.raises(AssertionError, match="in the backward: gradient of x: "):
        assert_matches_reference(module, x)
    assert module.training and module.fc.bias.grad is None


def test_other_modules_are_refused() -> None:
    with pytest.raises(TypeError, match=r"Linear was not made by fusegen\.load"):
        assert_matches_reference(nn.Linear(2, 2), torch.randn(2, 2))


def test_an_example_is_verified_in_one_line() -> None:
    assert_verified(
        EXAMPLES / "row_norm.fuse", arguments={"features": 33}, target="emulate", examples=6
    )


def test_a_wrong_model_is_not_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    right = subject.Subject.kernels
    monkeypatch.setattr(
        subject.Subject, "kernels", lambda self, t: tuple(r * 1.001 for r in right(self, t))
    )
    with pytest.raises(AssertionError, match=r"RowNorm: .* elements are wrong"):
        assert_verified(
            EXAMPLES / "row_norm.fuse", arguments={"features": 33}, target="emulate", examples=5
        )
