"""What is asked of a case, where that depends on the model."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from fusegen.frontend import Source
from fusegen.ir.dtypes import DType
from fusegen.runtime.request import Target
from fusegen.testing import Case, Subject, check_case
from fusegen.testing.checks import repeats

POOLED = """
model Pooled():
    input x: [2, 3, {sizes}]
    return {function}(x, 3, stride=2)
"""


def subject(function: str) -> Subject:
    sizes = ", ".join("8" * int(function[-2]))
    text = POOLED.format(function=function, sizes=sizes)
    return Subject.of(Source("pooled.fuse", text), target="emulate")


@pytest.mark.parametrize(
    ("function", "repeated"),
    [("max_pool2d", True), ("avg_pool2d", True), ("max_pool3d", False), ("avg_pool3d", False)],
)
def test_gradients_that_pytorch_adds_up_in_any_order_on_a_gpu(
    function: str, repeated: bool
) -> None:
    model = subject(function)
    backward, on_gpu = model.derivative(DType.FLOAT32).backward, replace(model, target=Target.CUDA)
    assert repeats(model, backward)
    assert repeats(on_gpu, backward) is repeated
    assert repeats(on_gpu, model.graph(DType.FLOAT32))


@pytest.mark.parametrize("repeated", [True, False])
def test_only_what_must_repeat_is_compared_from_run_to_run(
    repeated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, right, runs = subject("max_pool3d"), Subject.kernel_gradients, []

    def gradients(self: Subject, *arguments: object) -> tuple[torch.Tensor | None, ...]:
        (found,) = right(self, *arguments)  # type: ignore[arg-type]
        assert found is not None
        runs.append(found)
        return (found if len(runs) == 1 else torch.nextafter(found, found + 1),)

    monkeypatch.setattr(Subject, "kernel_gradients", gradients)
    monkeypatch.setattr("fusegen.testing.checks.repeats", lambda subject, graph: repeated)
    finding = check_case(model, Case())
    assert (finding is not None) is repeated
    assert finding is None or finding.headline == "gradient of x differs from one run to the next"
