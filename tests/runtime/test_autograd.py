"""Autograd sees a generated module as it sees the plain one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

from fusegen.runtime.request import Target
from tests.modules import load
from tests.runtime.plain import closeness, inputs, pair

TARGETS = pytest.mark.parametrize(
    "target", [Target.EMULATE, Target.CUDA], ids=["kernels", "reference"]
)

# Sums of at most 24 terms, each of which a few roundings have passed through, and what group norm
# and its gradient amplify: the statistics of 6 values.
TOLERANCE = 100.0


def assert_same_gradients(ours: nn.Module, plain: nn.Module) -> None:
    for (name, a), b in zip(ours.named_parameters(), plain.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None), name
        if a.grad is not None and b.grad is not None:
            assert closeness(a.grad, b.grad) <= TOLERANCE, name


def both(target: Target, use: Any) -> tuple[nn.Module, nn.Module]:
    """`use(module)` done with both modules; what it returns is compared."""
    ours, plain = pair(target)
    found, expected = use(ours), use(plain)
    for a, b in zip(found, expected, strict=True):
        assert closeness(a, b) <= TOLERANCE
    assert_same_gradients(ours, plain)
    return ours, plain


GRADIENTS = {
    "expanded": lambda y: torch.ones(()).expand_as(y),
    "one-row": lambda y: torch.arange(24.0).expand_as(y),
    "transposed": lambda y: torch.randn(y.shape[::-1], generator=generator()).t(),
    "sliced": lambda y: torch.randn(y.shape[0], 99, generator=generator())[:, 1:97:4],
    "unaligned": lambda y: torch.randn(y.numel() + 1, generator=generator())[1:].view_as(y),
}


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(3)


@TARGETS
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_any_layout(target: Target, name: str) -> None:
    """Case L38: strides of 0 among them; and the incoming gradient is left alone."""

    def use(module: nn.Module) -> list[Tensor]:
        x = inputs().requires_grad_()
        y = module(x)
        incoming = GRADIENTS[name](y)
        before = incoming.clone()
        y.backward(incoming)
        assert torch.equal(incoming, before)
        assert x.grad is not None
        return [y, x.grad]

    both(target, use)


@TARGETS
def test_a_batch_of_gradients(target: Target) -> None:
    """As for rows of a Jacobian; what is saved serves each of them, and the next call."""

    def use(module: nn.Module) -> list[Tensor]:
        x = inputs().requires_grad_()
        y = module(x)
        incoming = torch.randn(3, *y.shape, generator=generator())
        leaves = [x, *module.parameters()]

        def grad(**given: bool) -> tuple[Tensor, ...]:
            return torch.autograd.grad(y, leaves, incoming, is_grads_batched=True, **given)

        first, second = grad(retain_graph=True), grad()
        assert all(map(torch.equal, first, second))
        return [*first]

    both(target, use)


TRANSFORMS = {
    "grad": lambda f, x, v: torch.func.grad(lambda t: f(t).sin().sum())(x),
    "jacrev": lambda f, x, v: torch.func.jacrev(f)(x),
    "jvp": lambda f, x, v: torch.func.jvp(f, (x,), (v,))[1],
    "vmap": lambda f, x, v: torch.func.vmap(f)(torch.stack([x, v])),
    "hessian": lambda f, x, v: torch.func.hessian(lambda t: f(t).sin().sum())(x),
}


@TARGETS
@pytest.mark.parametrize("trained", [True, False])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_function_transforms(target: Target, trained: bool, name: str) -> None:
    """The kernels' operators do not know them: a jvp through them was 0."""

    def use(module: nn.Module) -> list[Tensor]:
        module.requires_grad_(trained)
        return [TRANSFORMS[name](module, inputs(1), inputs(2)).detach()]

    both(target, use)


@TARGETS
@pytest.mark.parametrize("trained", [True, False])
@pytest.mark.parametrize("name", ["grad", "jacrev", "vmap"])
def test_compiled_function_transforms(target: Target, trained: bool, name: str) -> None:
    """Within what torch.compile traces; others than these PyTorch does not compile for such chains.
    A gradient that left out the trained kernels was wrong. Without a transform the kernels run."""

    def use(module: nn.Module) -> list[Tensor]:
        module.requires_grad_(trained)

        def compiled(function: Any) -> Any:
            return torch.compile(function, backend="aot_eager", fullgraph=True)

        def call(x: Tensor) -> Tensor:
            return module(x)

        x, v = inputs(1), inputs(2)
        found = compiled(lambda x, v: TRANSFORMS[name](call, x, v))(x, v)
        return [found.detach(), compiled(call)(x).detach()]

    both(target, use)


@TARGETS
@pytest.mark.parametrize("trained", [True, False])
def test_forward_mode_derivatives(target: Target, trained: bool) -> None:
    def use(module: nn.Module) -> list[Tensor]:
        module.requires_grad_(trained)
        with forward_ad.dual_level():
            y = module(forward_ad.make_dual(inputs(1), inputs(2)))
            return [forward_ad.unpack_dual(y).tangent.detach()]

    both(target, use)


@TARGETS
def test_forward_mode_derivatives_of_what_was_compiled_without(target: Target) -> None:
    """The compiled call is made anew: its kernels would have dropped the tangent."""

    def use(module: nn.Module) -> list[Tensor]:
        module.requires_grad_(False)
        compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
        y = compiled(inputs(1))
        with forward_ad.dual_level():
            dual = forward_ad.unpack_dual(compiled(forward_ad.make_dual(inputs(1), inputs(2))))
            return [y, dual.primal, dual.tangent]

    both(target, use)


@TARGETS
def test_several_consumers_and_accumulation(target: Target) -> None:
    """The result is used twice, an input twice, and gradients add up over two backwards."""

    def use(module: nn.Module) -> list[Tensor]:
        x = inputs().requires_grad_()
        for _ in range(2):
            y = module(x)
            (y.sin().sum() + (y * module(x * 2)).sum() + x.sum()).backward()
        assert x.grad is not None
        return [x.grad]

    both(target, use)


@TARGETS
def test_backward_twice(target: Target) -> None:
    """`retain_graph` gives the same again; without it PyTorch refuses the second."""

    def use(module: nn.Module) -> list[Tensor]:
        x = inputs().requires_grad_()
        loss = module(x).square().sum()
        first = torch.autograd.grad(loss, x, retain_graph=True)[0]
        second = torch.autograd.grad(loss, x)[0]
        assert torch.equal(first, second)
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            torch.autograd.grad(loss, x)
        return [first]

    both(target, use)


@TARGETS
@pytest.mark.parametrize(
    "frozen",
    [
        ("linear.weight",),
        ("linear.bias", "norm.weight"),
        ("norm.weight", "norm.bias", "weight"),
        ("linear.weight", "linear.bias", "norm.weight", "norm.bias", "weight"),
    ],
    ids=lambda names: "+".join(names),
)
@pytest.mark.parametrize("needs_input", [True, False])
def test_frozen_parameters(target: Target, frozen: tuple[str, ...], needs_input: bool) -> None:
    """Case P53: only what needs a gradient gets one; nothing is recorded where nothing does."""

    def use(module: nn.Module) -> list[Tensor]:
        for name in frozen:
            module.get_parameter(name).requires_grad_(False)
        x = inputs().requires_grad_(needs_input)
        y = module(x)
        if not y.requires_grad:
            assert y.grad_fn is None and not needs_input and len(frozen) == 5
            return [y]
        y.square().sum().backward()
        return [y, x.grad] if x.grad is not None else [y]

    both(target, use)


@TARGETS
def test_no_grad_and_inference_mode(target: Target) -> None:
    ours, plain = pair(target)
    x = inputs()
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            y = ours(x)
            assert not y.requires_grad
            assert y.is_inference() == (mode is torch.inference_mode)
            assert closeness(y, plain(x)) <= TOLERANCE
    with torch.inference_mode():
        made_there = inputs(2)
        assert closeness(ours(made_there), plain(made_there)) <= TOLERANCE
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        ours(made_there)


@TARGETS
def test_hooks(target: Target) -> None:
    """On the module, its result, an input and a parameter."""

    def use(module: nn.Module) -> list[Tensor]:
        seen: list[Tensor] = []
        module.register_forward_pre_hook(lambda _, args: (args[0] * 2,))
        module.register_forward_hook(lambda _, args, y: y + args[0].sum())
        module.register_full_backward_hook(lambda _, given, taken: seen.extend((*given, *taken)))
        module.get_parameter("linear.weight").register_hook(lambda g: seen.append(g) or g * 3)
        module.get_parameter("weight").register_post_accumulate_grad_hook(
            lambda p: seen.append(p.grad)
        )
        x = inputs().requires_grad_()
        y = module(x)
        y.register_hook(lambda g: g * 0.5)
        y.square().sum().backward()
        assert len(seen) == 4
        return sorted(seen, key=lambda t: (t.numel(), t.dim()))

    both(target, use)


@TARGETS
@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint(target: Target, reentrant: bool) -> None:
    def use(module: nn.Module) -> list[Tensor]:
        x = inputs().requires_grad_()
        y = checkpoint(module, x, use_reentrant=reentrant)
        y.square().sum().backward()
        assert x.grad is not None
        return [y, x.grad]

    both(target, use)


@TARGETS
def test_saved_tensors_changed_in_place_are_noticed(target: Target) -> None:
    ours, _ = pair(target)
    y = ours(inputs().requires_grad_())
    with torch.no_grad():
        ours.linear.weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@TARGETS
def test_double_backward_is_refused_or_right(target: Target) -> None:
    """Case P54: PyTorch's operations can be differentiated again, the kernels say that not."""
    ours, plain = pair(target)
    x = inputs().requires_grad_()
    (expected,) = torch.autograd.grad(plain(x).square().sum(), x, create_graph=True)
    if target is Target.EMULATE:
        with pytest.raises(RuntimeError, match="Chain can be differentiated once only"):
            torch.autograd.grad(ours(x).square().sum(), x, create_graph=True)
        return
    (found,) = torch.autograd.grad(ours(x).square().sum(), x, create_graph=True)
    (a,) = torch.autograd.grad(found.square().sum(), x)
    (b,) = torch.autograd.grad(expected.square().sum(), x)
    assert closeness(a, b) <= 10 * TOLERANCE


MANY = """\
model Many():
    input x: [n, 4]
    input y: [n, 4]
    input index: int64[n]
    count = Buffer([4], init="ones")
    weight = Parameter([4], init="ones")
    z = x * weight
    whole = to(index, float32)
    return z, exp(y), argmax(x, dim=1), sign(x), to(x > 0, float32), count * 2, whole
"""
EAGER = {  # which outputs need a gradient, by the inputs that do
    (): (True, False, False, False, False, False, False),
    ("x",): (True, False, False, True, False, False, False),
    ("y",): (True, True, False, False, False, False, False),
    ("x", "y"): (True, True, False, True, False, False, False),
}


@TARGETS
@pytest.mark.parametrize("needed", EAGER, ids="+".join)
def test_outputs_need_a_gradient_as_in_eager(target: Target, needed: tuple[str, ...]) -> None:
    module = load(MANY, target)()
    x, y = (torch.randn(3, 4, requires_grad=name in needed) for name in "xy")
    outputs = module(x, y, torch.tensor([1, 2, 3]))
    assert tuple(output.requires_grad for output in outputs) == EAGER[needed]


@TARGETS
def test_outputs_without_a_gradient(target: Target) -> None:
    """Only some outputs are used: what only the others need has no gradient."""
    module = load(MANY, target)()
    x, y = (torch.randn(3, 4, requires_grad=True) for _ in "xy")
    outputs = module(x, y, torch.tensor([1, 2, 3]))
    outputs[1].sum().backward(retain_graph=True)
    assert torch.allclose(y.grad, y.exp())
    assert x.grad is None and module.weight.grad is None
    outputs[0].sum().backward()
    assert torch.equal(x.grad, torch.ones(3, 4))
    assert torch.allclose(module.weight.grad, x.sum(0))


@TARGETS
def test_an_infinite_branch_that_is_not_used_does_no_harm(target: Target) -> None:
    text = "model Branches():\n    input x: [n, 4]\n    return x * 2, exp(x)\n"
    x = torch.full((3, 4), 1000.0, requires_grad=True)
    doubled, infinite = load(text, target)()(x)
    assert infinite.isinf().all()
    doubled.sum().backward()
    assert torch.equal(x.grad, torch.full((3, 4), 2.0))
