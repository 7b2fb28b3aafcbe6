"""The operators of a module's gradients: a forward that saves values, and a backward."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

from fusegen.codegen.wanted import wanted_bit
from fusegen.runtime.emulation import emulation
from fusegen.runtime.request import Target
from tests.modules import derived, form_for, generated, load, operators
from tests.runtime.plain import CHAIN, closeness, inputs, pair

BATCH_NORM = """\
model Norm:
    input x: [n, 4, h, w]
    conv = Conv2d(4, 4, 1)
    bn = BatchNorm2d(4)
    return relu(bn(conv(x)))
"""
SEVERAL = """\
model Several:
    input x: [n, 4]
    input y: [n, 4]
    weight = Parameter([4])
    return softmax(x * weight, dim=1), exp(y) * 2
"""
SIMPLE = "model Simple:\n    input x: [n, 4]\n    return sum(x)\n"


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


Case = tuple[str, tuple[Tensor, ...], str]
CASES: dict[str, Case] = {
    "chain": (CHAIN, (inputs(),), "_INFERENCE"),
    "batch norm": (BATCH_NORM, (drawn(2, 4, 3, 5).transpose(2, 3),), "_TRAINING"),
    "several results": (SEVERAL, (drawn(3, 4), drawn(4, 3).t()), "_INFERENCE"),
    "nothing saved": (SIMPLE, (drawn(3, 4),), "_INFERENCE"),
}
each_case = pytest.mark.parametrize("name", CASES)


def backward_arguments(module: nn.Module, given: Sequence[Tensor], mode: str) -> list[Tensor]:
    """What a backward takes: gradients of ones with strides of 0, then what is kept."""
    scope = generated(module)
    gradient = form_for(module, *given, mode=mode).gradient
    found = derived(module, *given, mode=mode)
    members = "_members_training" if mode == "_TRAINING" else "_members"
    tensors = [*given, *(getattr(scope, members)(module) if hasattr(scope, members) else ())]
    tensors = [tensor.detach() for tensor in tensors]
    forward = found.forward or operators(module, *given, mode=mode).no_grad
    results = forward(*tensors)
    everything = [*tensors, *(results if isinstance(results, tuple) else (results,))]
    first = everything[len(tensors) :]
    ones = [first[n].new_ones(()).expand(first[n].shape) for n in gradient.outputs]
    return [*ones, *(everything[position] for position in gradient.kept)]


@each_case
def test_opcheck(name: str) -> None:
    """Of the plain operator, of the forward, and of the backward for some and for all gradients."""
    text, given, mode = CASES[name]
    module = load(text)()
    scope = generated(module)
    members = getattr(scope, "_members_training" if mode == "_TRAINING" else "_members", None)
    arguments = (*given, *(members(module) if members else ()))
    found = derived(module, *given, mode=mode)
    torch.library.opcheck(operators(module, *given, mode=mode).differentiable, arguments)
    if found.forward is not None:
        torch.library.opcheck(found.forward, arguments)
    taken = backward_arguments(module, given, mode)
    torch.library.opcheck(found.backward, (*taken, -1))
    torch.library.opcheck(found.backward, (*taken, 1))


@each_case
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_fakes_are_like_the_kernels_results(name: str, dtype: torch.dtype) -> None:
    """Shapes, strides and dtypes, whichever gradients are wanted."""
    text, given, mode = CASES[name]
    module = load(text)().to(dtype)
    given = tuple(tensor.to(dtype) for tensor in given)
    scope = generated(module)
    gradient = form_for(module, *given, mode=mode).gradient
    taken = backward_arguments(module, given, mode)
    found = derived(module, *given, mode=mode)
    for wanted in range(1, 1 << len(gradient.targets)):
        real = found.backward(*taken, wanted)
        fake = scope._wanted_only(gradient.empty_backward, *taken, wanted)
        assert described(real) == described(fake)
    members = getattr(scope, "_members_training" if mode == "_TRAINING" else "_members", None)
    arguments = [*given, *(members(module) if members else ())]
    if found.forward is not None:
        with torch.no_grad():
            assert described(found.forward(*arguments)) == described(
                gradient.empty_forward(*arguments)
            )


def described(tensors: Any) -> list[tuple[object, ...]]:
    several = tensors if isinstance(tensors, tuple) else (tensors,)
    return [(t.shape, t.stride(), t.dtype) for t in several]


def test_each_choice_of_gradients_gives_the_same() -> None:
    """A gradient's bits do not depend on which others are wanted; the checker watches."""
    module, _ = pair(Target.EMULATE)
    taken = backward_arguments(module, (inputs(),), "_INFERENCE")
    backward = derived(module, inputs()).backward
    with emulation(seed=5, check=True):
        everything = backward(*taken, -1)
        for wanted in range(1, 1 << len(everything)):
            for number, gradient in enumerate(backward(*taken, wanted)):
                if wanted >> number & 1:
                    assert torch.equal(gradient, everything[number])
                else:
                    assert gradient.shape == (0,)


def dropped(module: nn.Module, x: Tensor, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each tensor saved by a call with `x`, whether its memory is free behind the backward
    operator, which is asked twice: with the graph retained, and without."""
    scope = generated(module)
    found = derived(module, x)
    watched: list[bool] = []

    def backward(*arguments: Any) -> Any:
        *tensors, wanted = arguments
        gradient = form_for(module, x).gradient
        saved = [StorageWeakRef(t.untyped_storage()) for t in tensors[-gradient.saved :]]
        made = found.dropping(*tensors, wanted)
        watched.extend(storage.expired() for storage in saved)
        return made

    (name,) = (name for name, known in scope._DERIVED.items() if known is found)
    monkeypatch.setitem(scope._DERIVED, name, found._replace(dropping=backward))
    leaves = [x, *module.parameters()]
    loss = module(x).square().sum()
    first = torch.autograd.grad(loss, leaves, retain_graph=True)
    second = torch.autograd.grad(loss, leaves)
    assert all(map(torch.equal, first, second))
    return watched


def test_saved_values_are_dropped_once_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The product, which the first of the backward's kernels reads; not where the graph is
    retained, and not in the hands of somebody else, here of a hook."""
    module, _ = pair(Target.EMULATE)
    with emulation(check=True):
        found = dropped(module, inputs().requires_grad_(), monkeypatch)
        half = len(found) // 2
        assert not any(found[:half]) and any(found[half:])
        held: list[Tensor] = []

        def hold(saved: Tensor) -> Tensor:
            held.append(saved)
            return saved

        x = inputs().requires_grad_()
        with torch.autograd.graph.saved_tensors_hooks(hold, lambda saved: saved):
            y = module(x)
        values = [saved.clone() for saved in held]
        y.sum().backward()
    assert all(map(torch.equal, held, values))


def test_compiled_autograd_drops_nothing() -> None:
    """It makes a function of the backward, which cannot empty what it is given."""
    ours, plain = pair(Target.EMULATE)
    x, again = inputs().requires_grad_(), inputs().requires_grad_()
    loss = ours(x).square().sum()
    with torch._dynamo.config.patch(compiled_autograd=True):
        torch.compile(loss.backward, backend="aot_eager")()
    plain(again).square().sum().backward()
    assert closeness(x.grad, again.grad) <= 100
    for a, b in zip(ours.parameters(), plain.parameters(), strict=True):
        assert closeness(a.grad, b.grad) <= 100


def test_nothing_is_saved_without_a_need() -> None:
    """Without gradients the plain operator runs: there is no forward to load."""
    module = load(CHAIN)(columns=8)
    scope = generated(module)
    with torch.no_grad():
        module(inputs())
    module.requires_grad_(False)
    module(inputs())
    assert scope._LOADED and not scope._DERIVED
    module.weight.requires_grad_(True)
    module(inputs()).sum().backward()
    assert scope._DERIVED


def test_exported_programs_can_be_differentiated() -> None:
    """They hold the plain operator; its backward computes again what a forward would save."""
    ours, plain = pair(Target.EMULATE)
    program = torch.export.export(ours, (inputs(),))
    assert not any("_forward" in str(node.target) for node in program.graph.nodes)
    exported = program.module()
    x, again = inputs().requires_grad_(), inputs().requires_grad_()
    exported(x).square().sum().backward()
    plain(again).square().sum().backward()
    assert closeness(x.grad, again.grad) <= 100
    gradients = dict(exported.named_parameters())
    for name, parameter in plain.named_parameters():
        assert closeness(gradients[name].grad, parameter.grad) <= 100


def test_gradcheck() -> None:
    """Against differences, in float64, for each choice of what needs a gradient."""
    module = load(CHAIN)(width=3, num_groups=2, columns=4).double()
    x = torch.randn(2, 3, dtype=torch.float64)
    arguments = [x, *module.parameters()]
    names = [name for name, _ in module.named_parameters()]

    def function(x: Tensor, *parameters: Tensor) -> Tensor:
        return torch.func.functional_call(module, dict(zip(names, parameters, strict=True)), (x,))

    for needed in itertools.islice(itertools.product([True, False], repeat=6), 0, 63, 7):
        given = [t.detach().requires_grad_(n) for t, n in zip(arguments, needed, strict=True)]
        assert torch.autograd.gradcheck(function, given)


def test_buffers_have_no_gradients() -> None:
    module = load("model M:\n    input x: [n]\n    b = Buffer([1])\n    return x * b\n")()
    with pytest.raises(RuntimeError, match=r"^b is a buffer, and buffers have no gradients here"):
        given = {"b": torch.ones(1, requires_grad=True)}
        torch.func.functional_call(module, given, (torch.ones(2),))


def test_bits_that_ask_for_gradients() -> None:
    """The module and the binding agree; the last bit stands for all gradients from there on."""
    scope = generated(load(CHAIN)())
    assert [scope._wanted_bit(n) for n in range(70)] == [wanted_bit(n) for n in range(70)]
    assert wanted_bit(61) == 1 << 61 and wanted_bit(62) == wanted_bit(69) == 1 << 62


@pytest.mark.parametrize("text", [SIMPLE, SEVERAL], ids=["nothing saved", "saved"])
def test_torch_compile_loads_the_backward_while_it_traces(text: str) -> None:
    """Before any other call, without a graph break."""
    module = load(text.replace("[n, 4]", "[n, 6]").replace("[4]", "[6]"))()
    scope = generated(module)
    assert not scope._DERIVED
    given = [torch.randn(3, 6, requires_grad=True) for _ in range(text.count("input"))]
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    results = compiled(*given)
    first = results[0] if isinstance(results, tuple) else results
    first.square().sum().backward()
    assert scope._DERIVED
    found = [tensor.grad for tensor in given]
    exact = [tensor.detach().double().requires_grad_() for tensor in given]
    expected = scope.reference(*exact, *(p.detach().double() for p in module.parameters()))
    first = expected[0] if isinstance(expected, tuple) else expected
    first.square().sum().backward()
    for a, b in zip(found, exact, strict=True):
        if b.grad is not None:
            assert torch.allclose(a.double(), b.grad, rtol=1e-5, atol=1e-6)
