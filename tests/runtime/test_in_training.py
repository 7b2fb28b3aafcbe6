"""Generated modules in the hands of PyTorch's tools: copies, optimizers, compilers, casts."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize, prune

from fusegen.runtime.request import Target
from tests.runtime.plain import PlainChain, closeness, inputs, pair

TARGETS = pytest.mark.parametrize(
    "target", [Target.EMULATE, Target.CUDA], ids=["kernels", "reference"]
)
# As in test_autograd; a training step divides by the square root of a small second moment.
TOLERANCE = 100.0


@TARGETS
def test_deepcopy(target: Target) -> None:
    ours, _ = pair(target)
    duplicate = copy.deepcopy(ours)
    assert type(duplicate) is type(ours)
    assert torch.equal(duplicate(inputs()), ours(inputs()))
    with torch.no_grad():
        duplicate.weight.zero_()
    assert ours.weight.abs().max() > 0


@TARGETS
def test_state_dict_both_ways(target: Target) -> None:
    ours, plain = pair(target)
    other = PlainChain()
    other.load_state_dict(ours.state_dict(), strict=True)
    ours.load_state_dict(PlainChain().state_dict(), strict=True)
    assert not torch.equal(ours.weight, plain.weight)
    ours.load_state_dict(other.state_dict(), strict=True, assign=True)
    assert closeness(ours(inputs()), plain(inputs())) <= TOLERANCE
    missing, unexpected = ours.load_state_dict({"weights": plain.weight}, strict=False)
    assert "weight" in missing and unexpected == ["weights"]


@TARGETS
def test_functional_call_and_gradients_of_it(target: Target) -> None:
    """The module's own parameters are not touched, and gradients reach those given."""
    ours, plain = pair(target)
    given = {name: torch.randn_like(p).requires_grad_() for name, p in ours.named_parameters()}

    def gradients(module: nn.Module) -> tuple[Tensor, ...]:
        y = torch.func.functional_call(module, given, (inputs(),))
        return (y, *torch.autograd.grad(y.square().sum(), list(given.values())))

    before = ours.weight.detach().clone()
    for a, b in zip(gradients(ours), gradients(plain), strict=True):
        assert closeness(a, b) <= TOLERANCE
    assert torch.equal(ours.weight, before) and ours.weight.grad is None


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "foreach": lambda p: torch.optim.Adam(p, lr=0.01, foreach=True),
    "fused": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
}


@TARGETS
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(target: Target, name: str) -> None:
    """Twenty steps end where the plain module's do."""

    def train(module: nn.Module) -> list[Tensor]:
        optimizer = OPTIMIZERS[name](module.parameters())
        losses = []
        for step in range(20):
            optimizer.zero_grad()
            loss = (module(inputs(step)) - 1).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return losses

    ours, plain = pair(target)
    found, expected = torch.stack(train(ours)), torch.stack(train(plain))
    assert expected[-1] < expected[0]
    # Each step passes on the difference of those before it.
    assert (found - expected).abs().max() <= 20 * TOLERANCE * 1.2e-7 * expected.max()


@TARGETS
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_other_dtypes(target: Target, dtype: torch.dtype) -> None:
    """`.to()` converts parameters and gradients; results are as near to float64 as eager's."""
    ours, plain = pair(target)
    exact = copy.deepcopy(plain).double()
    ours.to(dtype), plain.to(dtype)

    def results(module: nn.Module, of: torch.dtype) -> list[Tensor]:
        x = inputs().to(dtype).to(of).requires_grad_()
        exact.load_state_dict(plain.state_dict())
        y = module(x)
        y.backward(torch.ones_like(y))
        assert x.grad is not None
        return [y, x.grad, *(p.grad for p in module.parameters() if p.grad is not None)]

    wanted = results(exact, torch.float64)
    for a, b, truth in zip(results(ours, dtype), results(plain, dtype), wanted, strict=True):
        assert a.dtype is b.dtype is dtype
        scale = truth.abs().max() * torch.finfo(dtype).eps
        eager = (b.double() - truth).abs().max() / scale
        assert (a.double() - truth).abs().max() / scale <= 2 * eager + 4


@TARGETS
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.filterwarnings("ignore:.*weight_norm.*is deprecated")
def test_weights_that_a_layers_hook_computes(target: Target, compiled: bool) -> None:
    """Pruning, and the norms before there were parametrizations: nothing calls the layer."""

    def use(module: nn.Module) -> list[Tensor]:
        torch.manual_seed(3)
        prune.random_unstructured(module.linear, "weight", 0.5)
        nn.utils.weight_norm(module.linear, "bias")
        prune.random_unstructured(module, "weight", 0.5)
        called = torch.compile(module, backend="aot_eager", fullgraph=True) if compiled else module
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        found = []
        for step in range(3):
            y = called(inputs(step))
            optimizer.zero_grad()
            y.square().mean().backward()
            optimizer.step()
            found.append(y.detach())
        return [*found, *(p.detach() for _, p in sorted(module.named_parameters()))]

    ours, plain = pair(target)
    for a, b in zip(use(ours), use(plain), strict=True):
        assert closeness(a, b) <= 3 * TOLERANCE


@TARGETS
def test_parametrizations(target: Target) -> None:
    """A parameter computed from others: spectral norm, and one of the user's own."""

    class Doubled(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return 2 * x

    def use(module: Any) -> list[Tensor]:
        torch.manual_seed(3)
        parametrizations.spectral_norm(module.linear)
        parametrize.register_parametrization(module, "weight", Doubled())
        module.eval()
        y = module(inputs())
        y.square().sum().backward()
        return [y, *(p.grad for _, p in sorted(module.named_parameters()) if p.grad is not None)]

    ours, plain = pair(target)
    found, expected = use(ours), use(plain)
    assert len(found) == 6
    for a, b in zip(found, expected, strict=True):
        assert closeness(a, b) <= TOLERANCE


@TARGETS
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_torch_compile_of_a_training_step(target: Target, backend: str) -> None:
    """No graph break around the module, forward and backward, also when sizes change."""
    ours, plain = pair(target)

    class Loss(nn.Module):
        def __init__(self, module: nn.Module) -> None:
            super().__init__()
            self.module = module

        def forward(self, x: Tensor) -> Tensor:
            return (self.module(x.sin()) + 1).square().mean()

    compiled = torch.compile(Loss(ours), fullgraph=True, backend=backend)
    for rows in (5, 7, 9):
        ours.zero_grad(), plain.zero_grad()
        loss, expected = compiled(inputs(rows=rows)), Loss(plain)(inputs(rows=rows))
        assert closeness(loss, expected) <= TOLERANCE
        loss.backward(), expected.backward()
        for a, b in zip(ours.parameters(), plain.parameters(), strict=True):
            assert closeness(a.grad, b.grad) <= TOLERANCE


@TARGETS
def test_export(target: Target) -> None:
    """Exported with a symbolic batch; the program runs at other sizes."""
    ours, plain = pair(target)
    shapes = {"x": {0: torch.export.Dim("batch")}}
    program = torch.export.export(ours.eval(), (inputs(),), dynamic_shapes=shapes)
    for rows in (3, 8):
        found = program.module()(inputs(rows=rows))
        assert closeness(found, plain(inputs(rows=rows))) <= TOLERANCE
    if target is Target.EMULATE:
        assert any("fusegen" in str(node.target) for node in program.graph.nodes)


@TARGETS
def test_several_threads(target: Target) -> None:
    """As `DataParallel` and servers call modules."""
    from concurrent.futures import ThreadPoolExecutor

    ours, plain = pair(target)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda seed: ours(inputs(seed)), range(8)))
    for seed, y in enumerate(found):
        assert closeness(y, plain(inputs(seed))) <= TOLERANCE
