"""Under autocast a module computes what the plain one does, in the dtypes that it has."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fusegen.runtime.request import Target
from tests.runtime.plain import inputs, pair

TARGETS = pytest.mark.parametrize(
    "target", [Target.EMULATE, Target.CUDA], ids=["kernels", "reference"]
)
DTYPES = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)


@TARGETS
@DTYPES
@pytest.mark.parametrize("given", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_dtypes_and_gradients(target: Target, dtype: torch.dtype, given: torch.dtype) -> None:
    """Inputs of any dtype, as the layers before leave them; parameters stay float32."""

    def use(module: nn.Module) -> list[Tensor]:
        x = inputs().to(given).requires_grad_()
        with torch.autocast("cpu", dtype=dtype):
            y = module(x)
        y.float().square().sum().backward()
        assert x.grad is not None
        return [y, x.grad, *(p.grad for p in module.parameters() if p.grad is not None)]

    ours, plain = pair(target)
    found, expected = use(ours), use(plain)
    assert len(found) == 7
    for a, b in zip(found, expected, strict=True):
        assert a.dtype is b.dtype
        assert torch.equal(a, b)


@TARGETS
def test_mixed_dtypes_are_refused_outside(target: Target) -> None:
    ours, _ = pair(target)
    with torch.autocast("cpu", enabled=False), pytest.raises(TypeError, match="but x is"):
        ours(inputs().bfloat16())
    with torch.autocast("cpu"), pytest.raises(TypeError, match="x is a list, but must be a tensor"):
        ours([1.0])


@TARGETS
def test_grad_scaler(target: Target) -> None:
    """Steps with scaled losses end where the plain module's do; one that overflows is left out."""

    def train(module: nn.Module) -> tuple[dict[str, Any], float]:
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14, growth_interval=2)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        for step in range(5):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = (module(inputs(step)) - 1).square().mean()
            scaler.scale(loss * (float("inf") if step == 2 else 1.0)).backward()
            scaler.step(optimizer)
            scaler.update()
        return module.state_dict(), scaler.get_scale()

    ours, plain = pair(target)
    (found, scale), (expected, same) = train(ours), train(plain)
    assert scale == same
    for name, value in expected.items():
        assert torch.equal(found[name], value), name
        assert value.isfinite().all()
