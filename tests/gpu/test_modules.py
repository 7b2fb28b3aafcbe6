"""What modules owe PyTorch on a GPU: the tensors' device, the current stream, graphs, opcheck."""

from __future__ import annotations

import threading

import pytest
import torch

from fusegen.runtime.request import Target
from tests.modules import load, operators, reference

MODEL = """\
model Chain:
    input x: [batch, 64]
    linear = Linear(64, 96)
    norm = GroupNorm(6, 96)
    return x |> linear |> norm |> relu
"""
PRODUCT = """\
model Product:
    input x: [rows, 1024]
    linear = Linear(1024, 1024, bias=False)
    return linear(x)
"""
SCALED = """\
model Scaled:
    input s: []
    input x: [n, 64]
    shift = Parameter([])
    return x * s + shift
"""
TOLERANCE = 1e-5  # in float32, of values around 1 that are sums of 64 products of order 0.1


def module(device: str = "cuda") -> torch.nn.Module:
    torch.manual_seed(0)
    made: torch.nn.Module = load(MODEL, Target.CUDA)().to(device)
    return made


@pytest.mark.gpu
def test_opcheck() -> None:
    chain = module()
    x = torch.randn(64, 8, device="cuda").t()
    assert torch.allclose(chain(x), reference(chain, x), atol=TOLERANCE)
    torch.library.opcheck(operators(chain, x).differentiable, (x, *chain.parameters()))


@pytest.mark.gpu
def test_side_stream_behind_a_slow_kernel() -> None:
    """Case P48: the kernels wait for what the current stream does before them."""
    chain = module()
    chain(torch.zeros(1, 64, device="cuda"))
    source = torch.randn(2048, 64, device="cuda")
    expected = reference(chain, source)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()), torch.no_grad():
        x = torch.zeros_like(source)
        torch.cuda._sleep(100_000_000)
        x.copy_(source)
        y = chain(x)
    torch.cuda.synchronize()
    assert torch.allclose(y, expected, atol=TOLERANCE)


@pytest.mark.gpu
def test_a_thread_that_has_not_used_the_gpu() -> None:
    """It has no context yet, as the thread of a first backward, and takes the same form of the
    product: the bits are the same."""
    product = load(PRODUCT, Target.CUDA)().to("cuda", torch.bfloat16)
    x = torch.randn(1024, 1024, device="cuda", dtype=torch.bfloat16)
    found: list[torch.Tensor] = []

    def call() -> None:
        with torch.no_grad():
            found.append(product(x))

    call()
    call()
    found.pop()  # leaves memory, for which there would be a context
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert torch.equal(*found)


@pytest.mark.gpu
def test_cuda_graph_replay_with_new_data() -> None:
    """Case P48: captured once, replayed with other inputs."""
    chain = module()
    x = torch.randn(32, 64, device="cuda")
    with torch.no_grad():
        chain(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = chain(x)
        fresh = torch.randn(32, 64, device="cuda")
        x.copy_(fresh)
        y.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        assert torch.allclose(y, reference(chain, fresh), atol=TOLERANCE)


@pytest.mark.gpu
def test_tensors_on_the_last_device_while_the_first_is_current() -> None:
    """Case P47, where there are several GPUs; with one, the same call on it."""
    device = f"cuda:{torch.cuda.device_count() - 1}"
    chain = module(device)
    x = torch.randn(16, 64, device=device)
    with torch.cuda.device(0):
        y = chain(x)
        assert torch.cuda.current_device() == 0
    assert y.device == x.device
    assert torch.allclose(y, reference(chain, x), atol=TOLERANCE)


@pytest.mark.gpu
def test_tensors_on_two_devices_are_refused() -> None:
    chain = module()
    with pytest.raises(RuntimeError, match="is on the CPU, but the first input is on GPU 0"):
        chain.norm.to("cpu")
        chain(torch.randn(4, 64, device="cuda"))


@pytest.mark.gpu
@pytest.mark.parametrize("compiled", [False, True], ids=["module", "torch.compile"])
def test_numbers_on_the_cpu(compiled: bool) -> None:
    """As PyTorch's own operations take them; their gradients are there as well."""
    scaled = load(SCALED, Target.CUDA)()  # its parameter stays on the CPU
    run = torch.compile(scaled, fullgraph=True) if compiled else scaled
    s = torch.tensor(1.25, requires_grad=True)
    x = torch.randn(32, 64, device="cuda", requires_grad=True)
    upstream = torch.randint(-4, 5, (32, 64), device="cuda").float()
    y = run(s, x)
    eager = x * s + scaled.shift
    exact = x.double() * s.double() + scaled.shift.double()
    # A product and a sum, or both at once.
    rounded = torch.finfo(torch.float32).eps * (exact.abs() + (x * s).abs())
    assert y.device == x.device and bool(((y.double() - exact).abs() <= rounded).all())
    wanted = (s, x, scaled.shift)
    ours, theirs = (torch.autograd.grad(result, wanted, upstream) for result in (y, eager))
    assert [g.device for g in ours] == [t.device for t in wanted]
    # 2048 products, in whatever order they are added.
    terms = upstream.double() * x.double()
    bound = 2048 * torch.finfo(torch.float32).eps * terms.abs().sum().item()
    assert abs(ours[0].item() - terms.sum().item()) <= bound
    assert torch.equal(ours[1], theirs[1]) and ours[2].item() == upstream.sum().item()


@pytest.mark.gpu
def test_a_number_on_the_cpu_in_a_cuda_graph() -> None:
    """Nothing waits for it: the graph keeps its value, as it does PyTorch's own operations'."""
    scaled = load(SCALED, Target.CUDA)().cuda()
    x, s = torch.randn(32, 64, device="cuda"), torch.tensor(0.5)
    with torch.no_grad():
        scaled(s, x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = scaled(s, x)
        x.copy_(torch.randn(32, 64, device="cuda"))
        graph.replay()
        assert torch.equal(y, x * 0.5 + scaled.shift)


@pytest.mark.gpu
def test_torch_compile() -> None:
    chain = module()
    x = torch.randn(16, 64, device="cuda", requires_grad=True)
    y = torch.compile(chain, fullgraph=True)(x)
    y.sum().backward()
    assert torch.equal(y, chain(x))
