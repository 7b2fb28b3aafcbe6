"""The binding hands every launcher what it takes, and calls PyTorch's kernels as they want it."""

from __future__ import annotations

import re

import pytest
import torch

from fusegen.codegen.binding import binding_source
from fusegen.codegen.cuda import cuda_source
from fusegen.compiler.specialisation import Specialisation
from fusegen.compiler.variant import Variant, VariantKey, make_variant
from fusegen.frontend import Source
from fusegen.ir.dtypes import DType
from fusegen.passes import pipeline
from fusegen.passes.differentiation import differentiate
from fusegen.plan.module import plan_module
from fusegen.runtime.emulation import emulation
from fusegen.runtime.loader import find_libraries
from fusegen.runtime.request import Target, content_digest
from tests.emulated import apply, graph, value
from tests.modules import load, reference

CHAINS = {
    "one kernel": "return x |> relu |> mul(w)",
    "partials": "return logsumexp(x @ v, dim=1)",
    "library": "return relu(conv1d(reshape(x, [n, 1, 6]), k, padding=1)) + 1",
    "several results": "s = sum(x, dim=0)\n    return s, x * 2",
}
HEAD = """\
model M:
    input x: [n, 6]
    w = Parameter([6])
    v = Parameter([6, 5])
    k = Parameter([2, 1, 3])
"""


def sources(body: str) -> tuple[str, str]:
    """The kernels and the binding of a chain."""
    chosen = Specialisation.of(Source("m.fuse", HEAD + f"    {body}\n"), None, {})
    made = make_variant(chosen, VariantKey(DType.FLOAT32, training=False)).sources
    return made["m_float32.cu"], made["m_float32_binding.cpp"]


def declarations(text: str, start: str) -> dict[str, list[str]]:
    """The parameters' names of every launcher that the text declares or defines."""
    found = re.findall(rf"{start} int launch_(\w+)\(([^)]*)\)", text)
    return {name: re.findall(r"(\w+)(?:,|$)", parameters) for name, parameters in found}


@pytest.mark.parametrize("body", CHAINS.values(), ids=CHAINS)
def test_launchers_are_declared_as_they_are_defined(body: str) -> None:
    kernels, binding = sources(body)
    defined = declarations(kernels, "FUSEGEN_EXPORT")
    assert defined
    assert declarations(binding, 'extern "C"') == defined


@pytest.mark.parametrize("body", CHAINS.values(), ids=CHAINS)
def test_text_is_stable(body: str) -> None:
    """Cache keys and namespaces follow from it."""
    chosen = Specialisation.of(Source("m.fuse", HEAD + f"    {body}\n"), None, {})
    first, second = (
        make_variant(chosen, VariantKey(DType.FLOAT32, training=False)) for _ in range(2)
    )
    assert content_digest(first.request(Target.EMULATE)) == content_digest(
        second.request(Target.EMULATE)
    )


LIBRARY_CALLS = """\
model Calls:
    input x: [n, 2, height, width]
    conv = Conv2d(2, 4, (3, 1), stride=2, padding=(1, 0), dilation=1, groups=2)
    up = ConvTranspose2d(4, 2, 3, bias=False)
    y = x |> conv |> relu
    return up(y) * 2, max_pool2d(y, 2, padding=1), avg_pool2d(y, 2, divisor_override=3) + 1
"""


def test_library_calls_get_their_arguments() -> None:
    torch.manual_seed(0)
    module = load(LIBRARY_CALLS)()
    x = torch.randn(2, 2, 9, 8).to(memory_format=torch.channels_last)
    with emulation(check=True), torch.no_grad():
        results = module(x)
    for result, expected in zip(results, reference(module, x), strict=True):
        assert result.shape == expected.shape and result.is_contiguous()
        assert torch.allclose(result, expected, atol=1e-5)


EXTREMES = """\
model Extremes:
    input x: [n, m]
    return {}
"""


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("amax", ""), ("amin", ""), ("argmax", ""), ("argmin", ""), ("norm", "p=inf, ")],
)
def test_an_extreme_of_nothing_is_refused(name: str, arguments: str) -> None:
    module = load(EXTREMES.format(f"{name}(x[:, 1:], {arguments}dim=1)"))()
    with emulation(check=True):
        assert module(torch.ones(0, 3)).shape == (0,)
        with pytest.raises(RuntimeError, match=f"^{name} has nothing to choose from"):
            module(torch.ones(2, 1))


def test_a_size_below_zero_is_refused() -> None:
    module = load(EXTREMES.format("x[:, 1:] * 2"))()
    with emulation(check=True), pytest.raises(RuntimeError, match="too small: the size m - 1 is"):
        module(torch.ones(2, 0))


TAKEN = ["x[:, :1]", "x[:, 0]", "narrow(x, 1, 0, 1)", "x[:, -1]", "x[:, -1:]", "x[0]", "x[-1]"]


@pytest.mark.parametrize("taken", TAKEN)
def test_a_subscript_beyond_a_size_that_is_zero_is_refused(taken: str) -> None:
    """Kernels would read what is not there; PyTorch has another shape for a slice, or refuses."""
    module = load(EXTREMES.format(f"{taken} * 2"))()
    name, x = ("n", torch.ones(0, 2)) if taken in ("x[0]", "x[-1]") else ("m", torch.ones(2, 0))
    with emulation(check=True):
        with pytest.raises(RuntimeError, match=f"a subscript lies 1 outside the size {name}"):
            module(x)
        assert torch.equal(module(torch.ones(2, 2)), 2 * torch.ones_like(module(torch.ones(2, 2))))


CONVOLUTION = """\
model Convolution:
    input x: [n, 2, h, w]
    conv = Conv2d(2, 3, 3, stride=2)
    return conv(x)
"""


@pytest.mark.parametrize("size", [(2, 5), (5, 2), (1, 5), (0, 5)])
def test_an_image_smaller_than_the_kernel_is_refused(size: tuple[int, int]) -> None:
    module = load(CONVOLUTION)()
    with emulation(check=True):
        assert module(torch.ones(0, 2, 3, 3)).shape == (0, 3, 1, 1)
        with pytest.raises(RuntimeError, match=r"the input of conv2d is smaller|is too small"):
            module(torch.ones(2, 2, *size))


def test_a_softmax_of_nothing_is_nothing() -> None:
    module = load(EXTREMES.format("softmax(x, dim=1), norm(x, dim=1)"))()
    with emulation(check=True):
        softmax, norm = module(torch.ones(2, 0))
    assert softmax.shape == (2, 0) and torch.equal(norm, torch.zeros(2))


def test_library_result_returned_in_another_shape() -> None:
    text = "model R:\n    input x: [n, 1, w]\n    conv = Conv1d(1, 2, 3, padding=1, bias=False)\n"
    module = load(text + "    return flatten(conv(x), 1)\n")()
    x = torch.randn(3, 1, 5)
    assert torch.allclose(module(x), reference(module, x), atol=1e-6)


def test_a_failing_launch_is_a_runtime_error_with_the_faults_text() -> None:
    """A kernel that reads what was never written: the emulator's report reaches the user."""
    chosen = Specialisation.of(Source("m.fuse", HEAD + "    return relu(x)\n"), None, {})
    made = make_variant(chosen, VariantKey(DType.FLOAT32, training=False))
    name = "m_float32"
    text = made.sources[f"{name}.cu"]
    broken = text.replace("const int64_t count = n * 6;", "const int64_t count = n * 6 + 1;")
    assert broken != text
    variant = Variant(name, made.plan, {**made.sources, f"{name}.cu": broken})
    ((namespace, library),) = find_libraries([variant.request(Target.EMULATE, check=True)])
    torch.ops.load_library(library)
    operator = getattr(getattr(torch.ops, namespace), name)
    with emulation(check=True), pytest.raises(RuntimeError, match=r"^relu: "):
        operator(torch.randn(3, 6))


def test_sizes_are_decided_before_sums_of_them_are_checked() -> None:
    """The gradient of a convolution's result, which is shorter than its input, comes first."""
    x, kernel = value("x", "n", 3, "length"), value("k", 4, 3, 3)
    model = graph([x, kernel], apply("relu", apply("conv1d", x, kernel)))
    found = differentiate(model)
    assert found is not None
    plan = plan_module(pipeline.run(found.backward), DType.FLOAT32)
    assert plan.arguments[0].name == "gradient_of_y"
    kernels = cuda_source(plan, ("m.",))
    shown = {buffer.name: buffer.name for buffer in plan.arguments}
    text = binding_source(plan, kernels.launchers, "m", ("m.",), shown, ())
    checks = re.findall(r'check_tensor\("(\w+)".*ScalarType::Float, (.*)\);', text)
    names = [name for name, _ in checks]
    assert names.index("x") < names.index("gradient_of_y")
    assert dict(checks)["gradient_of_y"] == "{n, 4, length - 2}"
