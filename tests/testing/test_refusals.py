"""What PyTorch refuses is unsuitable for a comparison, and no fault hides behind that."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from fusegen.frontend import Source
from fusegen.testing import Case, Subject
from fusegen.testing.checks import check_case
from fusegen.testing.refusals import Unsuitable, refusals_of_pytorch

CASE = Case("float32", {"n": 3})


@pytest.fixture(scope="module")
def power() -> Subject:
    """PyTorch computes it, and fails where it is to differentiate it."""
    text = "model Power():\n    input x: [n, 5]\n    return x ** (x > 0)\n"
    return Subject.of(Source("power.fuse", text), target="emulate")


def test_what_pytorch_cannot_differentiate_is_unsuitable(power: Subject) -> None:
    with pytest.raises(Unsuitable, match="bool tensor is not supported"):
        check_case(power, CASE)


def test_a_wrong_forward_is_found_first(power: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Subject, "kernels", lambda *_: (torch.zeros(3, 5),))
    found = check_case(power, CASE)
    assert found is not None and "elements are wrong" in found.headline


def test_kernels_that_fail_are_no_refusal(power: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(subject: Subject, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        raise RuntimeError("a bool tensor is not supported")

    monkeypatch.setattr(Subject, "kernels", fail)
    found = check_case(power, CASE)
    assert found is not None and found.headline == "the kernels failed"


@pytest.mark.parametrize("fault", [torch.AcceleratorError("gone"), TypeError("no tensor")])
def test_other_errors_are_no_refusals(fault: Exception) -> None:
    with pytest.raises(type(fault)), refusals_of_pytorch():
        raise fault
