"""Generated modules on the GPU in the hands of PyTorch's optimizers and hooks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from fusegen.runtime.request import Target
from tests.runtime.plain import closeness, inputs, pair
from tests.runtime.test_in_training import OPTIMIZERS, TOLERANCE

pytestmark = pytest.mark.gpu
STEPS = 20


def modules() -> tuple[nn.Module, nn.Module]:
    ours, plain = pair(Target.CUDA)
    return ours.cuda(), plain.cuda()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name: str) -> None:
    def train(module: nn.Module) -> Tensor:
        optimizer = OPTIMIZERS[name](module.parameters())
        losses = []
        for step in range(STEPS):
            optimizer.zero_grad()
            loss = (module(inputs(step).cuda()) - 1).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return torch.stack(losses)

    found, expected = map(train, modules())
    assert expected[-1] < expected[0]
    # Each step passes on the difference of those before it.
    assert (found - expected).abs().max() <= STEPS * TOLERANCE * 1.2e-7 * expected.max()


def test_gradients_accumulate_and_hooks_see_them() -> None:
    """Two batches, one after the other; each hook is called once a backward."""
    seen: dict[str, int] = {}
    ours, plain = modules()
    ours.register_full_backward_hook(lambda *_: seen.update(module=seen.get("module", 0) + 1))
    for name, parameter in ours.named_parameters():
        parameter.register_post_accumulate_grad_hook(
            lambda _, name=name: seen.update({name: seen.get(name, 0) + 1})
        )
    for module in (ours, plain):
        for seed in range(2):
            module(inputs(seed).cuda().requires_grad_()).square().mean().backward()
    for a, b in zip(ours.parameters(), plain.parameters(), strict=True):
        assert closeness(a.grad, b.grad) <= TOLERANCE
    assert seen == dict.fromkeys(("module", *(name for name, _ in ours.named_parameters())), 2)
