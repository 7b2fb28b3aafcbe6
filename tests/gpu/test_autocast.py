"""Autocast on the GPU: the five chains' dtypes and errors, scaled losses, and training curves."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

import fusegen
from benchmarks.accuracy import relative_error
from benchmarks.chains import CHAINS, Chain
from examples import train_mlp
from fusegen.runtime.request import Target
from tests.modules import generated
from tests.runtime.plain import inputs, pair

pytestmark = pytest.mark.gpu
# Rounding units of autocast's dtype by which a result may be further off than twice eager's.
UNITS = 2.0
STEPS = 200


def used(module: nn.Module, x: Tensor) -> list[Tensor]:
    """The result, and the gradients of the input and of each parameter."""
    x = x.detach().clone().requires_grad_()
    y = module(x)
    # Not of the squares: their sum is constant behind a norm, and its gradient all cancellation.
    incoming = torch.randn(y.shape, generator=torch.Generator().manual_seed(2)).to(y)
    return [y, *torch.autograd.grad(y, [x, *module.parameters()], incoming)]


@pytest.mark.parametrize(
    ("chain", "dtype", "given"),
    [
        *((chain, torch.bfloat16, torch.float32) for chain in CHAINS),
        (CHAINS[0], torch.float16, torch.float16),
        (CHAINS[-1], torch.bfloat16, torch.bfloat16),
    ],
    ids=str,
)
def test_chains_in_eagers_dtypes(chain: Chain, dtype: torch.dtype, given: torch.dtype) -> None:
    torch.manual_seed(1)
    plain = chain.plain(**chain.small).cuda()
    ours = fusegen.load(chain.file)(**chain.small).cuda()
    ours.load_state_dict(plain.state_dict())
    x = torch.randn(chain.small_shape, device="cuda").to(given)
    with torch.autocast("cuda", dtype=dtype):
        found, again, eager = used(ours, x), used(ours, x), used(plain, x)
    exact = used(copy.deepcopy(plain).double(), x.double())
    assert all("autocast" in name for name in generated(ours)._DERIVED)
    for a, b, truth in zip(found, eager, exact, strict=True):
        assert a.dtype is b.dtype and a.shape == b.shape
        allowed = 2 * relative_error(b, truth) + UNITS * torch.finfo(dtype).eps
        assert relative_error(a, truth) <= allowed
    assert all(map(torch.equal, found, again))


def test_grad_scaler_leaves_out_a_step_that_overflows() -> None:
    def train(module: nn.Module) -> tuple[list[Tensor], float]:
        scaler = torch.amp.GradScaler("cuda", init_scale=2.0**14, growth_interval=2)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1, foreach=True)
        for step in range(5):
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = (module(inputs(step).cuda()) - 1).square().mean()
            scaler.scale(loss * (float("inf") if step == 2 else 1.0)).backward()
            scaler.step(optimizer)
            scaler.update()
        return [p.detach() for p in module.parameters()], scaler.get_scale()

    (found, scale), (expected, same) = (train(m.cuda()) for m in pair(Target.CUDA))
    assert scale == same
    for a, b in zip(found, expected, strict=True):
        # Four steps of 0.1 with gradients of order 1, which are off by some roundings.
        assert (a - b).abs().max().item() <= 4 * 0.1 * 4 * torch.finfo(torch.float16).eps


@pytest.mark.parametrize("autocast", [None, torch.bfloat16, torch.float16], ids=str)
def test_200_steps_end_within_the_noise_of_the_dtype(autocast: torch.dtype | None) -> None:
    """The losses are no further from the plain module's than four times what those are, as the
    greatest of all steps, from the plain module's in the next better arithmetic: the roundings of
    both are independent, and each curve is one draw."""
    generator = torch.Generator().manual_seed(3)
    labels = torch.randint(0, 10, (1797,), generator=generator).cuda()
    kinds = torch.rand(10, 64, generator=generator)
    noise = torch.randn(1797, 64, generator=generator).cuda()
    images = kinds.cuda()[labels] + 0.3 * noise
    torch.manual_seed(0)
    ours = fusegen.load(train_mlp.MODEL)().cuda()
    torch.manual_seed(0)
    plain = train_mlp.PlainMlp().cuda()
    better = copy.deepcopy(plain)
    found = train_mlp.train(ours, images, labels, STEPS, autocast)
    expected = train_mlp.train(plain, images, labels, STEPS, autocast)
    if autocast is None:
        exact = train_mlp.train(better.double(), images.double(), labels, STEPS)
    else:
        exact = train_mlp.train(better, images, labels, STEPS)
    curves = [torch.tensor(curve, dtype=torch.float64) for curve in (found, expected, exact)]
    ours_off, spread = ((curve - curves[1]).abs() for curve in (curves[0], curves[2]))
    print(
        f"{autocast}: last {found[-1]:.6f} {expected[-1]:.6f} {exact[-1]:.6f}, "
        f"greatest difference {ours_off.max():.1e}, spread {spread.max():.1e}"
    )
    assert ours_off.max() <= 4 * spread.max()
    assert found[-1] < 0.2 * found[0]
