"""Training on the GPU: the five chains' gradients, captured steps, streams, devices, compilers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import fusegen
from benchmarks.accuracy import exact_gradients, gradients, relative_error
from benchmarks.chains import CHAINS, Chain
from fusegen.runtime.request import Target
from tests.modules import derived, load, operators, reference
from tests.runtime.plain import inputs, pair
from tests.runtime.test_derived_operators import backward_arguments

# Rounding units of the dtype by which a gradient may be further off than twice eager's.
UNITS = 2.0
TOLERANCE = 1e-4  # in float32, of gradients around 1 that are sums of some dozen products


@pytest.mark.gpu
def test_opcheck() -> None:
    ours = pair(Target.CUDA)[0].cuda()
    x = torch.randn(16, 8, device="cuda").t()
    found = derived(ours, x)
    arguments = (x, *ours.parameters())
    torch.library.opcheck(operators(ours, x).differentiable, arguments)
    torch.library.opcheck(found.forward, arguments)
    torch.library.opcheck(found.backward, (*backward_arguments(ours, (x,), "_INFERENCE"), -1))


TWO_OUTPUTS = """\
model Two(features=48):
    input x: [batch, 64]
    linear = Linear(64, features)
    hidden = linear(x)
    return gelu(hidden), exp(hidden)
"""


@pytest.mark.gpu
@pytest.mark.parametrize("used", [0, 1])
def test_gradients_of_one_of_two_outputs(used: int) -> None:
    """A backward of its own; a second use of the graph finds what was saved for the first."""
    torch.manual_seed(1)
    module = load(TWO_OUTPUTS, Target.CUDA)().cuda()
    x = torch.randn(100, 64, device="cuda", requires_grad=True)
    of = (x, *module.parameters())
    theirs = torch.autograd.grad(reference(module, x)[used].sum(), of)
    result = module(x)[used].sum()
    for again in (True, False):
        ours = torch.autograd.grad(result, of, retain_graph=again)
        torch.testing.assert_close(ours, theirs, rtol=TOLERANCE, atol=TOLERANCE)


def trained(
    module: nn.Module, batches: Tensor, run: Callable[[Callable[[], None]], Callable[[], None]]
) -> nn.Module:
    """The module after a step on each batch; `run` makes what does a step of the step itself."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9)
    x = torch.zeros_like(batches[0])

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        (module(x) - 1).square().mean().backward()
        optimizer.step()

    x.copy_(batches[0])
    repeat = run(step)
    for batch in batches:
        x.copy_(batch)
        repeat()
    torch.cuda.synchronize()
    return module


def captured(step: Callable[[], None]) -> Callable[[], None]:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def once_before(step: Callable[[], None]) -> Callable[[], None]:
    """As `captured` does: a step to warm up."""
    step()
    return step


@pytest.mark.gpu
def test_whole_training_step_in_a_cuda_graph() -> None:
    """Case P48: captured once, replayed on other data; the same bits as step by step."""
    batches = torch.stack([inputs(seed, rows=32) for seed in range(6)]).cuda()
    first, second = (pair(Target.CUDA)[0].cuda() for _ in range(2))
    replayed, stepped = trained(first, batches, captured), trained(second, batches, once_before)
    for a, b in zip(replayed.parameters(), stepped.parameters(), strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(first.weight, pair(Target.CUDA)[0].cuda().weight)


@pytest.mark.gpu
def test_backward_on_a_side_stream_behind_a_slow_kernel() -> None:
    ours, plain = (module.cuda() for module in pair(Target.CUDA))
    x = inputs(rows=512).cuda().requires_grad_()
    incoming = torch.ones(512, 24, device="cuda")
    expected = gradients(plain, x, incoming)
    gradients(ours, x, incoming)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        late = torch.zeros_like(x, requires_grad=False)
        torch.cuda._sleep(100_000_000)
        late.copy_(x.detach())
        late.requires_grad_()
        found = gradients(ours, late, incoming)
    torch.cuda.synchronize()
    for a, b in zip(found, expected, strict=True):
        assert torch.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE * b.abs().max().item())


@pytest.mark.gpu
def test_last_device_while_the_first_is_current() -> None:
    """Case P47, where there are several GPUs; with one, the same on it."""
    device = f"cuda:{torch.cuda.device_count() - 1}"
    ours, plain = (module.to(device) for module in pair(Target.CUDA))
    x, incoming = inputs().to(device).requires_grad_(), torch.ones(5, 24, device=device)
    with torch.cuda.device(0):
        found = gradients(ours, x, incoming)
    for a, b in zip(found, gradients(plain, x, incoming), strict=True):
        assert torch.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE * b.abs().max().item())


@pytest.mark.gpu
def test_torch_compile_around_a_training_step() -> None:
    ours, plain = (module.cuda() for module in pair(Target.CUDA))
    x = inputs(rows=64).cuda()
    torch.compile(lambda x: ours(x.sin()).square().sum(), fullgraph=True)(x).backward()
    plain(x.sin()).square().sum().backward()
    for a, b in zip(ours.parameters(), plain.parameters(), strict=True):
        scale = b.grad.abs().max().item()
        assert torch.allclose(a.grad, b.grad, rtol=TOLERANCE, atol=TOLERANCE * scale)


@pytest.mark.gpu
@pytest.mark.parametrize("frozen", [("linear.weight",), ("norm.weight", "norm.bias", "weight")])
def test_frozen_parameters_launch_fewer_kernels(frozen: tuple[str, ...]) -> None:
    """Case P53: counted by the profiler."""
    from torch.profiler import ProfilerActivity, profile

    ours = pair(Target.CUDA)[0].cuda()
    x = inputs(rows=64).cuda()

    def launched() -> int:
        ours(x).sum().backward()
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CUDA]) as record:
            ours(x).sum().backward()
            torch.cuda.synchronize()
        return sum(event.count for event in record.key_averages())

    before = launched()
    for name in frozen:
        ours.get_parameter(name).requires_grad_(False)
        ours.get_parameter(name).grad = None
    # The gradients' kernel, which several may share, and the addition of each into `.grad`.
    assert launched() <= before - 1 - len(frozen)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: chain.name)
def test_gradients_of_the_chains(chain: Chain, dtype: torch.dtype) -> None:
    """As near to float64 as twice eager's, and the same bits in every run."""
    torch.manual_seed(1)
    plain = chain.plain(**chain.small).cuda().to(dtype)
    generated = fusegen.load(chain.file)(**chain.small).cuda().to(dtype)
    generated.load_state_dict(plain.state_dict())
    x = torch.randn(chain.small_shape, device="cuda").to(dtype)
    incoming = torch.randn_like(plain(x))
    exact = exact_gradients(plain, x, incoming)
    x.requires_grad_()
    found = gradients(generated, x, incoming)
    names = ("x", *(name for name, _ in plain.named_parameters()))
    for name, a, b, truth in zip(names, found, gradients(plain, x, incoming), exact, strict=True):
        allowed = 2 * relative_error(b, truth) + UNITS * torch.finfo(dtype).eps
        assert relative_error(a, truth) <= allowed, name
    for a, b in zip(found, gradients(generated, x, incoming), strict=True):
        assert torch.equal(a, b)
