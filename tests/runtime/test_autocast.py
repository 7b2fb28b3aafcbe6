"""Under autocast a module computes what the plain one does, in the dtypes that it has."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fusegen.runtime.request import Target
from tests.modules import derived, generated, load, operators
from tests.runtime.plain import inputs, pair

TARGETS = pytest.mark.parametrize(
    "target", [Target.EMULATE, Target.CUDA], ids=["kernels", "reference"]
)
DTYPES = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)


def used(module: nn.Module, given: Tensor) -> list[Tensor]:
    """The result, and the gradients of the input and of all parameters."""
    x = given.clone().requires_grad_()
    y = module(x)
    # Not of the squares: their sum is constant behind a norm, and its gradient all cancellation.
    incoming = torch.randn(y.shape, generator=torch.Generator().manual_seed(2)).to(y)
    gradients = torch.autograd.grad(y, [x, *module.parameters()], incoming)
    return [y, *gradients]


def as_right_as_eager(
    dtype: torch.dtype, found: list[Tensor], eager: list[Tensor], exact: list[Tensor]
) -> None:
    """In eager's dtypes, with at most twice eager's error in the norm, and a rounding to the dtype
    that autocast converts to: few elements may be lucky."""
    for ours, plain, truth in zip(found, eager, exact, strict=True):
        assert ours.dtype is plain.dtype and ours.shape == plain.shape
        error, theirs = ((x.double() - truth).norm() for x in (ours, plain))
        assert error <= 2 * theirs + torch.finfo(dtype).eps * truth.norm()


def names_in_use(module: nn.Module) -> set[str]:
    scope = generated(module)
    return {*scope._LOADED, *scope._DERIVED}


@TARGETS
@DTYPES
@pytest.mark.parametrize("given", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_dtypes_and_gradients(target: Target, dtype: torch.dtype, given: torch.dtype) -> None:
    """Inputs of any dtype, as the layers before leave them; parameters stay float32."""
    ours, plain = pair(target)
    x = inputs().to(given)
    with torch.autocast("cpu", dtype=dtype):
        found, eager = used(ours, x), used(plain, x)
    as_right_as_eager(dtype, found, eager, used(copy.deepcopy(plain).double(), x.double()))
    if target is Target.CUDA:  # PyTorch's operations, in the same order
        assert all(map(torch.equal, found, eager))
        assert not names_in_use(ours)


def test_kernels_run_in_the_dtypes_of_the_call() -> None:
    """Disabled inside, entered again, and for inputs of another layer's dtype: each call has its
    operators, and where none fits, PyTorch's operations run."""
    text = "model Add():\n    input x: [n]\n    input y: [n]\n    weight = Parameter([1])\n"
    ours = load(f"{text}    return x * weight + y\n")()
    x, low = torch.randn(4), torch.randn(4).bfloat16()
    with torch.no_grad(), torch.autocast("cpu"):
        assert ours(x, x).dtype is torch.float32
        with torch.autocast("cpu", enabled=False):
            assert torch.allclose(ours(x, x), x * ours.weight + x, atol=1e-6)
        with torch.autocast("cpu", dtype=torch.float16):
            ours(x, x)
        assert ours(low, x).dtype is ours(low, low).dtype is torch.float32
        assert ours(low.half(), x).dtype is torch.float32
    assert names_in_use(ours) == {
        "add_float32",
        "add_autocast_bfloat16",
        "add_autocast_float16",
        "add_autocast_bfloat16_in0",
        "add_autocast_bfloat16_in0_1",
    }


NORMS = """\
model Norms:
    input x: [n, 8, 8]
    conv = Conv1d(8, 4, 3)
    batch_norm = BatchNorm1d(4)
    fc = Linear(6, 5)
    return x |> conv |> batch_norm |> relu |> fc |> softmax(dim=-1), sum(x ** 2) / n
"""


class PlainNorms(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(8, 4, 3)
        self.batch_norm = nn.BatchNorm1d(4)
        self.fc = nn.Linear(6, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.fc(torch.relu(self.batch_norm(self.conv(x))))
        return torch.softmax(y, -1), (x**2).sum() / x.shape[0]


@pytest.mark.parametrize("training", [True, False])
def test_library_calls_and_running_statistics(training: bool) -> None:
    ours = load(NORMS)().train(training)
    plain = PlainNorms().train(training)
    plain.load_state_dict(ours.state_dict())
    x = torch.randn(3, 8, 8)
    exact = copy.deepcopy(plain).double()

    def use(module: nn.Module, x: Tensor) -> list[Tensor]:
        x = x.clone().requires_grad_()
        y, total = module(x)
        found = torch.autograd.grad((y[..., 0] * total).sum(), [x, *module.parameters()])
        return [y, total, *found, *(b for b in module.buffers() if b.is_floating_point())]

    with torch.autocast("cpu"):
        found, eager = use(ours, x), use(plain, x)
    as_right_as_eager(torch.bfloat16, found, eager, use(exact, x.double()))


def test_compiled_without_a_break() -> None:
    ours, _ = pair(Target.EMULATE)
    x = inputs()
    with torch.autocast("cpu"):
        y = torch.compile(ours, fullgraph=True, backend="aot_eager")(x)
        y.backward(torch.ones_like(y))  # whose layout may decide the order of sums
        found = [p.grad for p in ours.parameters()]
        ours.zero_grad()
        again = ours(x)
        again.backward(torch.ones_like(again))
    assert torch.equal(y, again)
    assert all(map(torch.equal, found, (p.grad for p in ours.parameters())))


def test_opcheck() -> None:
    ours, _ = pair(Target.EMULATE)
    x = inputs().bfloat16()
    with torch.autocast("cpu"):
        operator, found = operators(ours, x), derived(ours, x)
    torch.library.opcheck(operator.differentiable, (x, *ours.parameters()))
    torch.library.opcheck(found.forward, (x, *ours.parameters()))


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
    # Four steps of 0.1 with gradients of order 1, which are off by some float16 roundings.
    allowed = 0.0 if target is Target.CUDA else 4 * 0.1 * 4 * torch.finfo(torch.float16).eps
    for name, value in expected.items():
        assert value.isfinite().all()
        assert (found[name] - value).abs().max().item() <= allowed, name
