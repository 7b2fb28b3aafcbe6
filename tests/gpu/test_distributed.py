"""Training by two processes with a GPU each, over NCCL; and two GPUs in one process."""

from __future__ import annotations

import pytest
import torch

from benchmarks.accuracy import gradients
from fusegen.runtime.request import Target
from tests.runtime.distributed_worker import WAYS
from tests.runtime.plain import closeness, inputs, pair
from tests.runtime.test_distributed import TOLERANCE, Errors, gradients_errors

pytestmark = [pytest.mark.gpu, pytest.mark.gpus]


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> list[Errors]:
    return gradients_errors(tmp_path_factory.mktemp("nccl"), "cuda")


@pytest.mark.parametrize("way", WAYS)
def test_gradients_are_those_of_a_single_process(errors: list[Errors], way: str) -> None:
    for found in errors:
        assert len(found[f"cuda {way}"]) == 5
        for name, error in found[f"cuda {way}"].items():
            assert error <= TOLERANCE, name


@pytest.mark.parametrize("current", [0, 1])
@pytest.mark.parametrize("own", [0, 1])
def test_second_gpu_as_the_current_or_another_device(own: int, current: int) -> None:
    """Case P47: a training step where the tensors are, whichever device is current."""
    ours, plain = (module.to(f"cuda:{own}") for module in pair(Target.CUDA))
    x, incoming = (
        inputs().to(f"cuda:{own}").requires_grad_(),
        torch.ones(5, 24, device=f"cuda:{own}"),
    )
    with torch.cuda.device(current):
        found = gradients(ours, x, incoming)
        assert torch.cuda.current_device() == current
    for a, b in zip(found, gradients(plain, x, incoming), strict=True):
        assert a.device.index == own and closeness(a, b) <= TOLERANCE
