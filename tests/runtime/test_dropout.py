"""Dropout in generated modules: seeds from PyTorch's generator, modes, PyTorch's tools."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from fusegen.runtime.emulation import emulation
from fusegen.runtime.request import Target
from tests.modules import generated, load

P = 0.25
MODEL = f"""\
model Drops(p={P}):
    input x: [n, 8]
    weight = Parameter([8])
    drop = Dropout(p)
    return (x * weight) |> drop |> tanh |> dropout(0.5)
"""
BARE = "model Bare(p=0.5):\n    input x: [n, m]\n    return dropout(x, p)\n"
REFERENCE = Target.CUDA  # on the CPU, what computes is the reference
TARGETS = pytest.mark.parametrize(
    "target", [Target.EMULATE, REFERENCE], ids=["kernels", "reference"]
)


def x(rows: int = 40) -> Tensor:
    return torch.randn(rows, 8, generator=torch.Generator().manual_seed(1)).requires_grad_()


def model(target: Target) -> Any:
    torch.manual_seed(2)
    return load(MODEL, target)()


def seeded(module: nn.Module, *given: Tensor, seed: int = 3) -> Tensor:
    torch.manual_seed(seed)
    result: Tensor = module(*given)
    return result


def both_ways(module: nn.Module, seed: int = 3) -> list[Tensor]:
    """A result and the gradients of the input and of the weight."""
    given = x()
    result = seeded(module, given, seed=seed)
    gradients = torch.autograd.grad(result.square().sum(), (given, *module.parameters()))
    return [result.detach(), *gradients]


def equal(first: list[Tensor], second: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_kernels_have_the_references_mask() -> None:
    """From one seed of PyTorch's; tanh and its gradient err by a few units in the last place."""
    found, expected = both_ways(model(Target.EMULATE)), both_ways(model(REFERENCE))
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    assert torch.equal(found[0] == 0, expected[0] == 0)
    assert 0 < int((found[0] == 0).sum()) < found[0].numel()


@TARGETS
def test_a_seed_of_pytorch_repeats_everything(target: Target) -> None:
    module = model(target)
    assert equal(both_ways(module), both_ways(module))
    assert not equal(both_ways(module), both_ways(module, seed=4))
    first = seeded(module, x())
    assert not torch.equal(first, module(x())), "the next call draws anew"


def test_any_order_of_threads_gives_the_same_bits() -> None:
    module = model(Target.EMULATE)
    runs = []
    for order in range(3):
        with emulation(order, check=True):
            runs.append(both_ways(module))
    assert equal(runs[0], runs[1]) and equal(runs[0], runs[2])


@TARGETS
def test_evaluation_is_the_identity_and_draws_nothing(target: Target) -> None:
    module = model(target).eval()
    before = torch.get_rng_state()
    result = module(x())
    assert torch.equal(before, torch.get_rng_state())
    torch.testing.assert_close(result, torch.tanh(x() * module.weight))


@TARGETS
def test_activation_checkpoints_repeat_the_mask(target: Target) -> None:
    module = model(target)
    plain = both_ways(module)
    given = x()
    torch.manual_seed(3)
    result = checkpoint(module, given, use_reentrant=False)
    gradients = torch.autograd.grad(result.square().sum(), (given, *module.parameters()))
    assert equal(plain, [result, *gradients])


@TARGETS
def test_torch_compile_takes_it_whole(target: Target) -> None:
    """The back end that calls PyTorch's own operations draws the same seed."""
    torch._dynamo.reset()
    module = model(target)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    assert equal(both_ways(module), both_ways(compiled))


def test_opcheck() -> None:
    """Of the operators in training, the seed among their arguments."""
    module = model(Target.EMULATE)
    scope = generated(module)
    chain = scope._TRAINING
    arguments = [x(), module.weight, torch.tensor(-5)]
    form = chain.forms[(None, *(tensor.dtype for tensor in arguments))]
    scope._load(chain, "_", form)
    scope._load_derived(chain, "_", form)
    plain = scope._LOADED[f"{chain.operator}_{form.name}"]
    found = scope._DERIVED[f"{chain.operator}_{form.name}"]
    torch.library.opcheck(plain.differentiable, arguments)
    if found.forward is not None:
        torch.library.opcheck(found.forward, arguments)
    forward = found.forward or plain.no_grad
    results = forward(*(tensor.detach() for tensor in arguments))
    everything = [*arguments, *(results if isinstance(results, tuple) else (results,))]
    kept = [everything[position].detach() for position in form.gradient.kept]
    torch.library.opcheck(found.backward, (torch.ones(40, 8), *kept, -1))


def bare(p: float) -> Any:
    return load(BARE, REFERENCE)(p=p)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.93])
def test_how_many_are_kept(p: float) -> None:
    """Of n independent choices, n (1 - p) but for 5 standard deviations, sqrt(n p (1 - p)) each; so
    of each of four neighbours, which share a counter, and of two calls together."""
    given = torch.ones(128, 256)
    first, second = (seeded(bare(p), given, seed=seed) != 0 for seed in (1, 2))
    samples = [(first, 1 - p), (first & second, (1 - p) ** 2)]
    samples += [(first[:, i::4], 1 - p) for i in range(4)]
    samples += [(first[:, i::4] & first[:, j::4], (1 - p) ** 2) for i, j in PAIRS]
    for kept, chance in samples:
        count = kept.numel()
        allowed = 5 * (count * chance * (1 - chance)) ** 0.5
        assert abs(int(kept.sum()) - count * chance) <= allowed
    values = seeded(bare(p), given).unique()
    torch.testing.assert_close(values, torch.tensor([0.0, 1 / (1 - p)]), rtol=2e-7, atol=0.0)


PAIRS = list(itertools.combinations(range(4), 2))


def test_no_probability_and_certainty() -> None:
    """As in PyTorch, what is certainly dropped is multiplied by 0: NaN where it is infinite."""
    given = torch.tensor([[1.0, -2.0, float("inf"), float("nan")]])
    torch.testing.assert_close(bare(0.0)(given), given, equal_nan=True)
    torch.testing.assert_close(bare(1.0)(given), nn.Dropout(1.0)(given), equal_nan=True)


NESTED = """\
model Outer:
    input x: [n, 32]
    drop = Dropout()
    block = Inner()
    bare = Memberless()
    return drop(x), drop(x), block(x), bare(x), dropout(x)

model Inner:
    input x: [n, 32]
    scale = Parameter([32], init="ones")
    return dropout(x * scale)

model Memberless:
    input x: [n, 32]
    return dropout(x)
"""


def test_every_use_of_a_layer_or_function_has_a_mask_of_its_own() -> None:
    results = load(NESTED, REFERENCE)()(torch.ones(9, 32))
    for first, second in itertools.combinations(results, 2):
        assert not torch.equal(first, second)


@pytest.mark.parametrize("part", ["drop", "block"])
def test_dropouts_in_different_modes_are_refused(part: str) -> None:
    module = load(NESTED, REFERENCE)()
    getattr(module, part).eval()
    with pytest.raises(RuntimeError, match="some of drop, block, the module itself are in train"):
        module(torch.ones(2, 32))


SAME_NAMES = """\
model Names:
    input seed: [n, 6]
    input _draw_seed: [n, 6]
    _dropout = seed + _draw_seed
    return dropout(_dropout)
"""


def test_names_that_the_generated_text_has_itself() -> None:
    result = load(SAME_NAMES, REFERENCE)()(torch.ones(4, 6), torch.ones(4, 6))
    assert set(result.unique().tolist()) == {0.0, 4.0}


def test_an_input_that_is_no_tensor_is_refused_as_ever() -> None:
    with pytest.raises(TypeError, match="x is a list, but must be a tensor"):
        bare(0.5)([[1.0]])
