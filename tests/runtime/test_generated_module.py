"""The modules that `fusegen.load` gives are in PyTorch what the plain modules are."""

from __future__ import annotations

import inspect
import linecache
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor, nn

from fusegen.errors import FusegenError
from fusegen.runtime.emulation import emulation
from fusegen.runtime.request import Target
from tests.modules import generated, load, operators, reference
from tests.runtime.plain import CHAIN, PlainChain, inputs


@pytest.fixture(scope="module")
def chain_class() -> Any:
    return load(CHAIN)


@pytest.fixture
def chain(chain_class: Any) -> nn.Module:
    torch.manual_seed(0)
    made: nn.Module = chain_class()
    return made


def units(actual: Tensor, expected: Tensor) -> float:
    """The greatest difference in float32 epsilons of the greatest expected element."""
    scale = expected.abs().max().item() * torch.finfo(torch.float32).eps
    return (actual - expected).abs().max().item() / scale


# A row of the chain sums 16 products, then groups of 6: each rounding adds at most half a unit.
TOLERANCE = 16 + 2 * 6


def test_class_and_instance(chain_class: Any, chain: nn.Module) -> None:
    assert isinstance(chain, chain_class)
    assert issubclass(chain_class, nn.Module)
    assert type(chain).__name__ == chain_class.__name__ == "Chain"
    assert chain_class.__doc__ == "Linear, group norm, swish, a learned weight."


def test_state_dict_and_initial_values_are_those_of_the_plain_module(chain: nn.Module) -> None:
    torch.manual_seed(0)
    plain = PlainChain()
    assert list(chain.state_dict()) == list(plain.state_dict())
    for key, value in plain.state_dict().items():
        assert torch.equal(chain.state_dict()[key], value), key
    plain.load_state_dict(chain.state_dict(), strict=True)


SIGNED = """\
model Signed(width, hidden=4 * width, scale=0.5, kind="none", low=-inf):
    input x: [n, width]
    weight = Parameter([hidden, width])
    return linear(x, weight) |> gelu(approximate=kind) |> mul(scale) |> clamp(min=low)
"""


def test_signature() -> None:
    signed = load(SIGNED)
    assert str(inspect.signature(signed)) == (
        "(width, hidden=4 * width, scale=0.5, kind='none', low=-inf, *, device=None, dtype=None)"
    )
    assert [*inspect.signature(type(signed(3))).parameters] == ["device", "dtype"]
    late = load(SIGNED.replace("width, hidden=4 * width", "hidden=8, width"))
    shown = str(inspect.signature(late))
    assert shown.startswith("(hidden=8, *, width, scale=0.5,")
    assert late(width=3).weight.shape == (8, 3)


def test_arguments(chain_class: Any) -> None:
    assert chain_class(8).linear.in_features == 8
    assert chain_class(width=8).linear.in_features == 8
    assert type(chain_class(numpy.int64(8))) is type(chain_class(8))
    assert type(chain_class(8)) is type(chain_class(width=8))
    assert chain_class(dtype=torch.bfloat16).weight.dtype is torch.bfloat16
    assert chain_class(device="meta").weight.device.type == "meta"


@pytest.mark.parametrize(
    ("values", "keywords", "message"),
    [
        ((1, 2, 3, 4), {}, "takes 3 arguments, not 4"),
        ((8,), {"width": 8}, "'width' of model 'Chain' is given twice"),
        ((), {"widht": 8}, "did you mean 'width'?"),
        ((), {"num_groups": 7}, "model.fuse:5:12: error: "),
        (([8],), {}, "argument 'width' of model 'Chain' is a list"),
        ((torch.tensor(8),), {}, "argument 'width' of model 'Chain' is a Tensor"),
    ],
)
def test_wrong_arguments(
    chain_class: Any, values: tuple[int, ...], keywords: dict[str, int], message: str
) -> None:
    with pytest.raises(FusegenError) as raised:
        chain_class(*values, **keywords)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("declaration", "dtype", "value"),
    [
        ("Parameter([4], init=1)", torch.float32, 1),
        ("Buffer([4], init=-2)", torch.float32, -2),
        ("Buffer([4], init=True)", torch.float32, 1),
        ("Buffer([4], init=127, dtype=int8)", torch.int8, 127),
        ("Buffer([4], init=1_000_000_000_000_000_001, dtype=int64)", torch.int64, 10**18 + 1),
        ("Buffer([4], init=1, dtype=bool)", torch.bool, True),
        ("Parameter([4], init=65504, dtype=float16)", torch.float16, 65504),
        ("Buffer([4], init=-inf, dtype=bfloat16)", torch.bfloat16, float("-inf")),
    ],
)
def test_numbers_that_tensors_start_with(declaration: str, dtype: Any, value: float) -> None:
    """An integer without a dtype made a tensor of integers."""
    text = f"model M:\n    input x: [n, 4]\n    w = {declaration}\n    return to(w, float32) + x\n"
    for target in Target:
        module = load(text, target)()
        assert module.w.dtype is dtype and module.w.tolist() == [value] * 4
        assert torch.equal(module(inputs()[:, :4]), module.w.float() + inputs()[:, :4])


def test_a_class_with_open_arguments_is_not_derived_from(chain_class: Any) -> None:
    """It has no forward; the classes of its modules have one."""
    with pytest.raises(FusegenError, match="'Derived' cannot be derived from 'Chain'"):

        class Derived(chain_class):
            pass

    class Doubled(type(chain_class())):  # type: ignore[misc]
        def forward(self, x: Tensor) -> Tensor:
            return 2 * super().forward(x)

    module = Doubled()
    assert torch.equal(module(inputs()), 2 * type(module).__base__.forward(module, inputs()))


def test_texts_of_one_class_name_are_told_apart(chain_class: Any) -> None:
    """What a traceback shows is the lines of the module that it went through."""
    for width in (8, 12):
        file = generated(chain_class(width)).__file__
        assert f"nn.Linear({width}, 24" in "".join(linecache.getlines(file))


def test_modules_made_in_several_threads() -> None:
    made = load("model M(n):\n    input x: [n]\n    w = Parameter([n])\n    return x * w\n")
    with ThreadPoolExecutor(8) as pool:
        modules = list(pool.map(made, [2, 3] * 20))
    assert [module.w.numel() for module in modules] == [2, 3] * 20
    assert len(set(map(type, modules))) == 2


@pytest.mark.parametrize(
    "layout",
    [
        pytest.param(lambda x: x, id="contiguous"),
        pytest.param(lambda x: x.t().contiguous().t(), id="transposed"),
        pytest.param(lambda x: torch.cat([x, x], 1)[:, ::2][:, :16], id="sliced"),
        pytest.param(lambda x: x[:1].expand(5, 16), id="expanded"),
        pytest.param(
            lambda x: torch.cat([x.flatten()[:1], x.flatten()])[1:].view(5, 16), id="unaligned"
        ),
    ],
)
def test_result_and_opcheck(chain: nn.Module, layout: Any) -> None:
    x = layout(inputs())
    with emulation(seed=3, check=True), torch.no_grad():
        y = chain(x)
        assert units(y, reference(chain, x)) <= TOLERANCE
    assert y.is_contiguous()
    arguments = (x, *chain.parameters())
    torch.library.opcheck(operators(chain, x).differentiable, arguments)
    with torch.no_grad():
        torch.library.opcheck(operators(chain, x).no_grad, tuple(t.detach() for t in arguments))


def test_autograd_sees_a_call_only_where_a_tensor_needs_a_gradient(chain: nn.Module) -> None:
    with torch.no_grad():
        assert chain(inputs()).grad_fn is None
    y = chain(inputs())
    assert y.grad_fn is not None
    chain.requires_grad_(False)
    assert chain(inputs()).grad_fn is None
    assert chain(inputs().requires_grad_()).grad_fn is not None
    for quiet in (chain(inputs()), torch.compile(chain, fullgraph=True, backend="eager")(inputs())):
        assert torch.equal(quiet, y)


def test_a_parametrized_weight_is_the_computed_one(chain: nn.Module) -> None:
    class Twice(nn.Module):
        def forward(self, weight: Tensor) -> Tensor:
            return 2 * weight

    nn.utils.parametrize.register_parametrization(chain.linear, "weight", Twice())
    plain = PlainChain()
    nn.utils.parametrize.register_parametrization(plain.linear, "weight", Twice())
    plain.load_state_dict(chain.state_dict())
    y, expected = chain(inputs()), plain(inputs())
    assert units(y, expected) <= TOLERANCE
    original = "linear.parametrizations.weight.original"
    for module, result in ((chain, y), (plain, expected)):
        result.sum().backward()
        assert module.get_parameter(original).grad is not None
    assert torch.allclose(
        chain.get_parameter(original).grad, plain.get_parameter(original).grad, rtol=0, atol=1e-4
    )


def test_a_wrapper_in_a_layers_place_is_refused(chain: nn.Module) -> None:
    """One that has the layer's weight, but does more with its input."""

    class Adapted(nn.Module):
        def __init__(self, base: nn.Linear) -> None:
            super().__init__()
            self.base = base
            self.up = nn.Linear(16, 24)

        weight = property(lambda self: self.base.weight)
        bias = property(lambda self: self.base.bias)

    chain.linear = Adapted(chain.linear)
    with pytest.raises(RuntimeError, match=r"^linear is a Adapted, but must be a Linear: "):
        chain(inputs())


def test_a_compiled_layer_gives_its_weight(chain: nn.Module) -> None:
    expected = chain(inputs())
    chain.linear = torch.compile(chain.linear)
    assert torch.equal(chain(inputs()), expected)


@pytest.mark.parametrize("needed", [True, False])
def test_weights_that_nobody_has_filled_are_refused(chain: nn.Module, needed: bool) -> None:
    """Beside a tensor on the meta device nothing is computed."""
    chain.linear.to("meta")
    refused = pytest.raises(RuntimeError, match=r"^linear\.weight is on meta, but x is on cpu")
    with torch.set_grad_enabled(needed), refused:
        chain(inputs())
    assert chain.to("meta")(inputs().to("meta")).is_meta


def test_functional_call_swaps_the_weights(chain: nn.Module) -> None:
    doubled = {name: 2 * tensor.detach() for name, tensor in chain.named_parameters()}
    y = torch.func.functional_call(chain, doubled, (inputs(),))
    chain.load_state_dict(doubled)
    assert torch.equal(y, chain(inputs()))


def test_empty_batch(chain: nn.Module) -> None:
    """Case L42: the shape is kept, gradients are zero, the next call is fine."""
    y = chain(torch.empty(0, 16))
    assert y.shape == (0, 24)
    y.sum().backward()
    assert all(torch.equal(p.grad, torch.zeros_like(p)) for p in chain.parameters())
    assert units(chain(inputs()), reference(chain, inputs())) <= TOLERANCE


def test_mixed_dtypes_are_refused(chain: nn.Module) -> None:
    """Case P50."""
    with pytest.raises(TypeError, match=r"weight is torch\.float32, but x is torch\.bfloat16"):
        chain(inputs().bfloat16())
    with pytest.raises(TypeError, match="x is a list, but must be a tensor"):
        chain([1.0])
    with pytest.raises(TypeError, match=r"x is torch\.int64, but must be a floating-point tensor"):
        chain(inputs().long())


def test_wrong_shapes_are_refused(chain: nn.Module) -> None:
    chain(inputs())
    with pytest.raises(RuntimeError, match=r"^x has shape \[5, 3\], but must be \[batch, 16\]"):
        chain(inputs()[:, :3])
    with pytest.raises(RuntimeError, match=r"^x has shape \[5\], but must be \[batch, 16\]"):
        chain(inputs()[:, 0])
    chain.linear.weight = nn.Parameter(torch.zeros(24, 15))
    with pytest.raises(RuntimeError, match=r"^linear\.weight has shape \[24, 15\]"):
        chain(inputs())


def test_torch_compile_before_the_first_call(chain_class: Any) -> None:
    """The operator is loaded while the graph is traced, without a graph break."""
    module = chain_class(num_groups=2)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    x = inputs().requires_grad_()
    y = compiled(x)
    y.sum().backward()
    assert torch.equal(y, module(x))
    # The compiler makes incoming gradients contiguous, which may choose another order of sums.
    assert units(x.grad, torch.autograd.grad(module(x).sum(), x)[0]) <= 10 * TOLERANCE
    assert torch.equal(compiled(inputs(2, rows=7)), module(inputs(2, rows=7)))


def test_export_with_a_symbolic_batch(chain: nn.Module) -> None:
    shapes = {"x": {0: torch.export.Dim("batch")}}
    exported = torch.export.export(chain, (inputs(),), dynamic_shapes=shapes)
    x = inputs(2, rows=3)
    assert torch.equal(exported.module()(x), chain(x))


def test_cpu_tensors_of_a_cuda_module_run_the_reference() -> None:
    """Nothing is built: there need be no compiler."""
    module = load(CHAIN, Target.CUDA)()
    assert torch.equal(module(inputs()), reference(module, inputs()))
    assert not generated(module)._LOADED


def test_two_versions_in_one_process(chain: nn.Module) -> None:
    """Case B58: edit and load again; the old version goes on working."""
    before = chain(inputs())
    edited = load(CHAIN.replace("t * sigmoid(t)", "t * sigmoid(-t)"))()
    edited.load_state_dict(chain.state_dict())
    after = edited(inputs())
    assert units(after, reference(edited, inputs())) <= TOLERANCE
    assert not torch.equal(before, after)
    assert torch.equal(chain(inputs()), before)


def test_a_buffer_that_became_a_parameter() -> None:
    """Edited and loaded again: the kernels are the same, and what has a gradient is not."""
    text = "model M:\n    input x: [n, 4]\n    w = {}([4], init=2.0)\n    return x * w\n"
    x = inputs()[:, :4].requires_grad_()
    for kind in ("Buffer", "Parameter", "Buffer"):
        x.grad = None
        module = load(text.format(kind))()
        module(x).sum().backward()
        assert torch.equal(x.grad, torch.full_like(x, 2.0))
        for parameter in module.parameters():
            assert torch.allclose(parameter.grad, x.detach().sum(dim=0), atol=1e-6)


STRUCTURE = """\
model Mlp(width):
    input x: [n, width]
    fc1 = Linear(width, 4)
    scale = Parameter([4], init=0.5)
    fc2 = Linear(4, width, bias=False)
    return fc2(relu(fc1(x)) * scale)

model Net(width=6):
    input x: [n, width]
    input y: [n, width]
    input mask: bool[n, width]
    offset = Buffer([width], init="ones")
    count = Buffer([2], dtype=int64)
    block = Mlp(width)
    other = Mlp(width)
    z = block(x) + other(y) + offset
    return where(mask, z, y), argmax(z, dim=1), x
"""


class PlainMlp(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, 4)
        self.scale = nn.Parameter(torch.full((4,), 0.5))
        self.fc2 = nn.Linear(4, width, bias=False)


class PlainNet(nn.Module):
    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.register_buffer("offset", torch.ones(width))
        self.register_buffer("count", torch.zeros(2, dtype=torch.int64))
        self.block = PlainMlp(width)
        self.other = PlainMlp(width)


@pytest.fixture(scope="module")
def net() -> Any:
    torch.manual_seed(0)
    return load(STRUCTURE)()


def net_inputs() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(5)
    return torch.randn(3, 6), torch.randn(3, 6), torch.rand(3, 6) > 0.5


def test_nested_models_have_the_keys_of_nested_modules(net: Any) -> None:
    torch.manual_seed(0)
    plain = PlainNet()
    assert list(net.state_dict()) == list(plain.state_dict())
    assert all(torch.equal(a, plain.state_dict()[k]) for k, a in net.state_dict().items())


def test_several_inputs_and_outputs(net: Any) -> None:
    x, y, mask = net_inputs()
    chosen, position, same = net(x, y, mask)
    hidden = sum(
        (net.get_submodule(name).fc1(value).relu() * 0.5) @ net.get_submodule(name).fc2.weight.t()
        for name, value in (("block", x), ("other", y))
    )
    z = hidden + 1
    assert torch.allclose(chosen, torch.where(mask, z, y), atol=1e-6)
    assert torch.equal(position, z.argmax(1))
    assert torch.equal(same, x)


def test_results_never_alias_inputs(net: Any) -> None:
    """Case P52, in the kernels and in the reference."""
    x, y, mask = net_inputs()
    assert net(x, y, mask)[2].data_ptr() != x.data_ptr()
    on_cpu = load(STRUCTURE, Target.CUDA)()
    assert on_cpu(x, y, mask)[2].data_ptr() != x.data_ptr()


def test_sizes_must_agree_between_inputs(net: Any) -> None:
    x, y, mask = net_inputs()
    with pytest.raises(RuntimeError) as raised:
        net(x, y[:2], mask)
    assert str(raised.value) == ("y has shape [2, 6], but must be [n, 6], where n is 3 in x")


def test_a_declared_dtype_is_required(net: Any) -> None:
    x, y, _ = net_inputs()
    with pytest.raises(TypeError, match=r"mask is torch\.float32, but it must be torch\.bool"):
        net(x, y, x)


BATCH_NORM = """\
model Norm:
    input x: [n, 4, h, w]
    conv = Conv2d(4, 4, 1)
    bn = BatchNorm2d(4)
    return relu(bn(conv(x)))
"""


class PlainNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 1)
        self.bn = nn.BatchNorm2d(4)

    def forward(self, x: Tensor) -> Tensor:
        return self.bn(self.conv(x)).relu()


@pytest.fixture(scope="module")
def norm_class() -> Any:
    return load(BATCH_NORM)


@pytest.mark.parametrize("momentum", [0.1, None, 1.0])
@pytest.mark.parametrize("target", [Target.EMULATE, Target.CUDA], ids=["kernels", "reference"])
def test_batch_norm_in_training(norm_class: Any, momentum: float | None, target: Target) -> None:
    """Results, gradients and running statistics over several steps, then in evaluation."""
    ours = norm_class() if target is Target.EMULATE else load(BATCH_NORM, target)()
    plain = PlainNorm()
    plain.load_state_dict(ours.state_dict(), strict=True)
    ours.bn.momentum = plain.bn.momentum = momentum
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        x = torch.randn(2, 4, 3, 5, generator=generator)
        for module in (ours, plain):
            module.zero_grad()
        y, expected = ours(x), plain(x)
        assert torch.allclose(y, expected, atol=1e-6)
        y.square().sum().backward()
        expected.square().sum().backward()
        for (name, a), b in zip(ours.named_parameters(), plain.parameters(), strict=True):
            assert torch.allclose(a.grad, b.grad, rtol=1e-4, atol=1e-4), name
        for (name, a), b in zip(ours.named_buffers(), plain.buffers(), strict=True):
            assert torch.allclose(a, b, atol=1e-6), name
    ours.eval(), plain.eval()
    assert torch.allclose(ours(x), plain(x), atol=1e-6)
    assert int(ours.bn.num_batches_tracked) == 3


def test_batch_norm_of_one_value_is_refused_as_in_pytorch(norm_class: Any) -> None:
    module = norm_class()
    with pytest.raises(RuntimeError, match=r"^bn is in training, and needs more than one value"):
        module(torch.randn(1, 4, 1, 1))
    assert int(module.bn.num_batches_tracked) == 0


def test_a_batch_norm_of_two_batches() -> None:
    """Applied twice, to batches of different sizes: each has its own count."""
    text = """\
model Norm:
    input x: [n, 4]
    input y: [m, 4]
    bn = BatchNorm1d(4, momentum=None)
    return bn(x), bn(y)
"""
    ours, plain = load(text)(), nn.BatchNorm1d(4, momentum=None)
    assert ours.bn.momentum is None
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    for first, second in ((x[:3], x[1:]), (x, x[:0]), (x[:0], x)):
        for result, expected in zip(ours(first, second), map(plain, (first, second)), strict=True):
            assert torch.allclose(result, expected, atol=1e-6)
        for (name, a), b in zip(ours.bn.named_buffers(), plain.buffers(), strict=True):
            assert torch.allclose(a, b, atol=1e-6), name
    for first, second in ((x[:1], x), (x, x[:1])):
        with pytest.raises(RuntimeError, match="bn is in training, and needs more than one value"):
            ours(first, second)


def test_an_empty_batch_changes_no_statistics(norm_class: Any) -> None:
    ours, plain = norm_class(), PlainNorm()
    x = torch.randn(0, 4, 3, 5, requires_grad=True)
    for module in (ours, plain):
        module(x).sum().backward()
    assert not any(p.grad.any() for p in ours.parameters())
    for (name, a), b in zip(ours.bn.named_buffers(), plain.bn.buffers(), strict=True):
        assert torch.equal(a, b), name
    assert ours.bn.running_var.eq(1).all() and int(ours.bn.num_batches_tracked) == 1


def test_statistics_of_all_processes_are_refused(norm_class: Any, tmp_path: Path) -> None:
    """A synchronised batch norm in the place of one, where there are processes to ask."""
    x = torch.randn(2, 4, 3, 5, generator=torch.Generator().manual_seed(0))
    module = nn.SyncBatchNorm.convert_sync_batchnorm(norm_class())
    expected = module(x)
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        with pytest.raises(RuntimeError, match=r"^a SyncBatchNorm takes the statistics of all"):
            module(x)
        assert module.eval()(x).shape == expected.shape
    finally:
        torch.distributed.destroy_process_group()


def test_modes_of_layers_must_not_differ() -> None:
    text = "model Two:\n    input x: [n, 3]\n    a = BatchNorm1d(3)\n    b = BatchNorm1d(3)\n"
    module = load(text + "    return b(a(x))\n")()
    module.a.eval()
    with pytest.raises(RuntimeError, match="some of a, b are in training and others in evaluation"):
        module(torch.randn(4, 3))


def test_narrow_takes_numbers_in_the_reference_too() -> None:
    module = load("model Part:\n    input x: [n, 6]\n    return narrow(x, 1, 2, 3) * 2\n")()
    x = torch.arange(12.0).reshape(2, 6)
    assert torch.equal(reference(module, x), x[:, 2:5] * 2)
    assert torch.equal(module(x), x[:, 2:5] * 2)
