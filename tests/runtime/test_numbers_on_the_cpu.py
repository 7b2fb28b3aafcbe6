"""Numbers (tensors without a dimension) on the CPU beside tensors on a GPU, as PyTorch's operations
take them. Fake tensors and operators stand in for a GPU's."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from fusegen.runtime.request import Target
from tests.modules import generated, load

TEXT = """
model Scaled:
    input s: []
    input x: [n, 4]
    shift = Parameter([])
    scale = Parameter([4])
    return x * s * scale + shift
"""
OPERATOR = "scaled_float32"
# PyTorch remembers what it was told of a namespace's operators.
NAMESPACES = (f"fusegen_test_numbers_{number}" for number in itertools.count())


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[nn.Module]:
    """A module for the GPU, whose operators are known to PyTorch and compute nothing."""
    namespace = next(NAMESPACES)
    library = torch.library.Library(namespace, "DEF")

    def define(_: str) -> None:
        for name in (OPERATOR, f"{OPERATOR}_no_grad"):
            library.define(f"{name}(Tensor s, Tensor x, Tensor shift, Tensor scale) -> Tensor")

    monkeypatch.setattr(torch.ops, "load_library", define)
    made: nn.Module = load(TEXT, Target.CUDA)()
    scope = generated(made)
    monkeypatch.setattr(scope, "find_libraries", lambda *_: [(namespace, "none")])
    monkeypatch.setattr(scope, "_LOADED", {})
    yield made
    library._destroy()


@pytest.fixture
def fake() -> Iterator[None]:
    with FakeTensorMode(), torch.no_grad():
        yield


def on(device: str, *shape: int) -> Tensor:
    return torch.empty(shape, device=device)


def call(module: nn.Module, s: Tensor, x: Tensor, **held: Tensor) -> Tensor:
    tensors = {"shift": on("cuda"), "scale": on("cuda", 4), **held}
    result = torch.func.functional_call(module, tensors, (s, x))
    assert isinstance(result, Tensor)
    return result


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize("numbers", [("cpu", "cuda"), ("cuda", "cpu"), ("cpu", "cpu")], ids=str)
def test_numbers_are_brought_to_the_other_tensors_device(
    module: nn.Module, numbers: tuple[str, str]
) -> None:
    s, shift = (on(device) for device in numbers)
    x = on("cuda", 3, 4)
    y = call(module, s, x, shift=shift)
    assert (y.device, tuple(y.shape)) == (x.device, (3, 4))
    eager = x * s + shift
    assert (eager.device, eager.dtype) == (y.device, y.dtype)
    assert generated(module)._LOADED  # the kernels' operator, not the reference


@pytest.mark.usefixtures("fake")
def test_other_tensors_on_the_cpu_are_refused_as_before(module: nn.Module) -> None:
    with pytest.raises(RuntimeError, match="scale is on cpu, but s is on cuda:0"):
        call(module, on("cpu"), on("cuda", 3, 4), scale=on("cpu", 4))


def test_a_number_keeps_its_bits_and_its_gradient() -> None:
    """By what brings it, with tensors of the CPU in place of the GPU's."""
    gathered = generated(load(TEXT, Target.CUDA)())._gathered
    chain = generated(load(TEXT, Target.CUDA)())._INFERENCE
    x = torch.zeros(3, 4)
    for value in (-0.0, float("nan"), float("-inf"), 2.0**-149, 1.5):
        s = torch.tensor(value, requires_grad=True)
        brought, same, shift = gathered(chain, x, (s, x, torch.tensor(True)))
        assert brought.detach().view(torch.int32) == s.detach().view(torch.int32)
        assert same is x and (shift.dtype, bool(shift)) == (torch.bool, True)
        brought.backward(torch.tensor(3.0))
        assert s.grad == 3.0


def test_modules_without_numbers_look_for_none() -> None:
    text = TEXT.replace("input s: []", "input s: [4]").replace("Parameter([])", "Parameter([4])")
    assert not hasattr(generated(load(text, Target.CUDA)()), "_gathered")
