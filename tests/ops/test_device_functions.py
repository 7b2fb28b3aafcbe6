"""Every record's C++ expression, compiled for the CPU, against PyTorch."""

from __future__ import annotations

import ctypes
import math
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from fusegen.emulator.build import compile_flags
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Attributes, AttributeValue, Node, TensorType
from fusegen.ops.operands import TENSOR_KINDS
from fusegen.ops.pointwise import activations, arithmetic, functions, logic
from fusegen.ops.record import OperationError, Parameter, ParameterKind, Pointwise
from fusegen.resources import include_files
from fusegen.runtime.toolchain import find_nvcc
from tests.ops.examples import SPECIAL, placeholder, torch_dtype
from tests.reference import evaluate

C_TYPES = {
    DType.BOOL: ("bool", "bool"),
    DType.UINT8: ("uint8_t", "uint8"),
    DType.INT8: ("int8_t", "int8"),
    DType.INT32: ("int32_t", "int32"),
    DType.INT64: ("int64_t", "int64"),
    DType.FLOAT32: ("float", "float32"),
    DType.FLOAT64: ("double", "float64"),
}
RECORDS = (
    *arithmetic.RECORDS,
    *logic.RECORDS,
    *functions.RECORDS,
    *activations.RECORDS,
    activations.GELU_SLOPE,
)
# A second set of arguments for the operations that have any.
ARGUMENTS: dict[str, AttributeValue] = {
    "negative_slope": 0.25,
    "alpha": 0.75,
    "approximate": "tanh",
    "beta": 5.0,
    "threshold": 2.0,
    "value": -1.5,
    "lambd": 1.0,
    "min_val": -2.5,
    "max_val": 3.0,
}
DEFAULTS: dict[str, AttributeValue] = {"threshold": 1.0, "value": 20.0}
"""For the parameters of `threshold`, which have no defaults."""

# Nothing is launched here, so the emulator's runtime is not linked, but for the one function of it
# that device.cuh exports.
PREAMBLE = """#include "fusegen/math.cuh"
const char* fusegen_emulator_error_text() { return ""; }
"""

Case = tuple[Pointwise, DType, bool]


def arguments(record: Pointwise, second: bool) -> Attributes:
    """The record's arguments that are no tensors: the defaults or the second set."""
    own = [p for p in record.parameters if p.kind not in TENSOR_KINDS]
    return Attributes(tuple((p.name, _argument(p, second)) for p in own))


def _argument(parameter: Parameter, second: bool) -> AttributeValue:
    if second:
        return ARGUMENTS[parameter.name]
    if isinstance(parameter.default, (float, str)):
        return parameter.default
    return DEFAULTS[parameter.name]


def tensor_names(record: Pointwise) -> list[str]:
    """The names of the record's operands."""
    return [p.name for p in record.parameters if p.kind in TENSOR_KINDS]


def operands(record: Pointwise, dtype: DType) -> list[Node]:
    """Placeholders of 1-d operands."""
    return [
        placeholder(TensorType((), DType.BOOL if name == "condition" else dtype), name)
        for name in tensor_names(record)
    ]


def applied(record: Pointwise, inputs: list[Node], attributes: Attributes) -> Node:
    """The operation's node, without the casts that `call` would put in."""
    result = record.infer(tuple(node.type for node in inputs), attributes)
    return Node(record, tuple(inputs), attributes, result)


def cases() -> Iterator[Case]:
    """Each record in each dtype it takes, twice if it has arguments."""
    for record in RECORDS:
        for dtype in C_TYPES:
            if record.floating and not dtype.is_float:
                continue
            for second in (False, True):
                chosen = arguments(record, second)
                if second and not chosen:
                    continue
                try:
                    applied(record, operands(record, dtype), chosen)
                except OperationError:
                    continue
                yield record, dtype, second


def symbol(case: Case) -> str:
    """The name of a case's function."""
    record, dtype, second = case
    return f"{record.name}_{dtype.value}{'_second' if second else ''}"


def literal(value: AttributeValue, kind: ParameterKind, dtype: DType) -> str:
    """An argument as C++ text."""
    if kind is ParameterKind.TEXT:
        return str(value)
    return f"({value!r}{'f' if dtype is DType.FLOAT32 else ''})"


def at_index(case: Case, index: str) -> tuple[str, str]:
    """C++ parameters for arrays of operands and results, and the statements that apply the
    record's expression to the elements at an index."""
    record, dtype, second = case
    attributes, inputs = arguments(record, second), operands(record, dtype)
    kinds = {p.name: p.kind for p in record.parameters}
    texts = {name: literal(value, kinds[name], dtype) for name, value in attributes.items()}
    typed = [(C_TYPES[node.dtype][0], node.name) for node in inputs]
    result = C_TYPES[applied(record, inputs, attributes).dtype][0]
    expression = record.cuda.format(**texts, **{name: name for name in tensor_names(record)})
    parameters = [*(f"const {t}* {name}s" for t, name in typed), f"{result}* out"]
    loads = [f"const {t} {name} = {name}s[{index}];" for t, name in typed]
    return ", ".join(parameters), " ".join([*loads, f"out[{index}] = {expression};"])


def function_text(case: Case) -> str:
    """A C function that applies the record's expression to arrays."""
    parameters, statements = at_index(case, "i")
    return (
        f'extern "C" __attribute__((visibility("default")))\n'
        f"void {symbol(case)}({parameters}, long count) {{\n"
        f"    for (long i = 0; i < count; ++i) {{ {statements} }}\n}}\n"
    )


def kernel_text(case: Case) -> str:
    """A kernel that applies the record's expression to one element a thread."""
    parameters, statements = at_index(case, "threadIdx.x")
    return f"__global__ void {symbol(case)}({parameters}) {{ {statements} }}\n"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """All cases' functions, compiled."""
    folder = tmp_path_factory.mktemp("device_functions")
    source = folder / "functions.cu"
    texts = [function_text(case) for case in CASES]
    source.write_text(PREAMBLE + "".join(texts))
    write_headers(folder)
    target = folder / "functions.so"
    flags = [*compile_flags(check=False), f"-I{folder}"]
    subprocess.run(["g++", *flags, "-shared", source, "-o", target], check=True)
    return ctypes.CDLL(str(target))


def write_headers(folder: Path) -> None:
    """The device headers, so that the folder is an include path."""
    for name, text in include_files().items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


CASES = tuple(cases())


def run(library: ctypes.CDLL, case: Case, inputs: list[torch.Tensor]) -> torch.Tensor:
    """The compiled function's results."""
    record, dtype, second = case
    result = applied(record, operands(record, dtype), arguments(record, second)).dtype
    out = torch.empty(inputs[0].shape, dtype=torch_dtype(result))
    function: Callable[..., None] = getattr(library, symbol(case))
    pointers = [ctypes.c_void_p(x.data_ptr()) for x in (*inputs, out)]
    function(*pointers, ctypes.c_long(out.numel()))
    return out


def samples(record: Pointwise, dtype: DType) -> list[torch.Tensor]:
    """Random, edge and special values; for several operands, each with each."""
    generator = torch.Generator().manual_seed(7)
    if dtype.is_float:
        random = torch.randn(200, generator=generator, dtype=torch.float64) * 4
        wide = torch.randn(50, generator=generator, dtype=torch.float64) * 30
        values = torch.cat([random, wide, torch.tensor(SPECIAL, dtype=torch.float64)])
    else:
        values = torch.randint(-6, 7, (40,), generator=generator)
        if record.name in ("floor_divide", "truncate_divide", "remainder"):
            values = values[values != 0]
        if record.name == "power":  # PyTorch refuses negative exponents of integers
            values = values.abs()
    values = values.to(torch_dtype(dtype))
    names = tensor_names(record)
    if len(names) == 1:
        return [values]
    left, right = (part.flatten() for part in torch.meshgrid(values, values, indexing="ij"))
    pair = [left.contiguous(), right.contiguous()]
    return [left.isfinite() & (left > 0), *pair] if "condition" in names else pair


def reference(case: Case, inputs: list[torch.Tensor]) -> torch.Tensor:
    """PyTorch's results in the inputs' dtypes, by a formula that is right where its own is not."""
    record, _, second = case
    if record.name == "gelu":  # its 1 + erf and 1 + tanh cancel where x is negative
        (x,) = inputs
        cubic = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        return x * (F.logsigmoid(2 * cubic) if second else torch.special.log_ndtr(x)).exp()
    if record.name == "remainder":  # its float32 kernel gives NaN for subnormal divisors
        left, right = inputs
        return torch.remainder(left.double(), right.double()).to(left.dtype)
    nodes = [
        placeholder(TensorType((), DType[str(x.dtype).removeprefix("torch.").upper()]), name)
        for x, name in zip(inputs, tensor_names(record), strict=True)
    ]
    node = applied(record, nodes, arguments(record, second))
    (result,) = evaluate((node,), dict(zip(nodes, inputs, strict=True)))
    return result


EXACT = {
    *("add", "sub", "mul", "div", "floor_divide", "truncate_divide", "remainder", "minimum"),
    *("maximum", "neg", "abs", "sign", "square", "relu", "relu6", "hardtanh", "hardshrink"),
    *("threshold", "floor", "ceil", "trunc", "round", *(record.name for record in logic.RECORDS)),
}


@pytest.mark.parametrize("case", CASES, ids=symbol)
@pytest.mark.filterwarnings("ignore")
def test_expression_equals_pytorch(library: ctypes.CDLL, case: Case) -> None:
    record, dtype, _ = case
    inputs = samples(record, dtype)
    actual = run(library, case, inputs)
    if record.name in EXACT or not dtype.is_float:
        torch.testing.assert_close(actual, reference(case, inputs), rtol=0, atol=0, equal_nan=True)
        return
    assert_within_conditioning(case, inputs, actual)


def assert_within_conditioning(
    case: Case, inputs: list[torch.Tensor], actual: torch.Tensor
) -> None:
    """Against float64: CUDA's functions err by at most 4 units in the last place (CUDA C++
    Programming Guide, mathematical functions), an expression makes at most a few roundings, and
    each is amplified by the function's condition, `x f'(x)`."""
    eps = torch.finfo(actual.dtype).eps
    wide = [x.double().requires_grad_(x.dtype.is_floating_point) for x in inputs]
    expected = reference(case, wide)
    leaves = [x for x in wide if x.requires_grad]
    slopes = torch.autograd.grad(expected.sum(), leaves)
    expected = expected.detach()
    amplified = sum((x.detach() * s).abs() for x, s in zip(leaves, slopes, strict=True))
    if case[0].name == "tanhshrink":  # the difference of two numbers of the size of x
        amplified = leaves[0].detach().abs()
    subnormal = torch.finfo(actual.dtype).smallest_normal * eps  # the least of them
    size = 1 + sum(x.detach().abs().nan_to_num(0.0, 0.0) for x in leaves)
    bound = 8 * eps * (expected.abs() + torch.as_tensor(amplified).nan_to_num(0.0))
    bound += 2 * subnormal * size
    representable = expected.to(actual.dtype)
    special = ~representable.isfinite()
    torch.testing.assert_close(
        actual[special], representable[special], rtol=0, atol=0, equal_nan=True
    )
    error = (actual.double() - expected)[~special].abs()
    worst = int((error / bound[~special]).argmax())
    assert bool((error <= bound[~special]).all()), (
        f"x = {[x[~special][worst].item() for x in inputs]}: {actual[~special][worst].item()} "
        f"is not {expected[~special][worst].item()}"
    )


FLOATING = dict.fromkeys(
    record
    for record, dtype, second in CASES
    if dtype is DType.FLOAT32
    and applied(record, operands(record, dtype), arguments(record, second)).dtype is dtype
)
# Not for these arguments: less 0.5, or the whole part of a rounded quotient.
ROUND_SELDOM = ("softshrink", "floor_divide", "truncate_divide", "remainder")


@pytest.mark.parametrize("record", FLOATING, ids=lambda record: record.name)
@pytest.mark.filterwarnings("ignore")
def test_what_is_exact_rounds_nothing_and_a_zero_has_no_error(
    library: ctypes.CDLL, record: Pointwise
) -> None:
    """On both of which `fusegen.testing.rounding` relies."""
    rounded = 0
    for case in CASES:
        if case[:2] != (record, DType.FLOAT32):
            continue
        inputs = samples(record, DType.FLOAT32)
        wide = reference(case, [x.double() if x.is_floating_point() else x for x in inputs])
        finite = wide[wide.abs() <= torch.finfo(torch.float32).max]
        rounded += int((finite.float().double() != finite).sum())
        if record is not activations.TANHSHRINK:  # which cancels
            assert not run(library, case, inputs)[wide == 0].any()
    if record.exact:
        assert not rounded
    elif record.name not in ROUND_SELDOM:
        assert rounded


@pytest.mark.nvcc
def test_nvcc_compiles_every_expression_without_a_warning(tmp_path: Path) -> None:
    write_headers(tmp_path)
    source = tmp_path / "kernels.cu"
    source.write_text('#include "fusegen/math.cuh"\n' + "".join(map(kernel_text, CASES)))
    command = [str(find_nvcc().path), "-std=c++17", "-cubin", "-arch=sm_80", f"-I{tmp_path}"]
    done = subprocess.run(
        [*command, str(source), "-o", str(tmp_path / "kernels.cubin")],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
