"""Runs a module on random inputs and measures it, and PyTorch beside it, against float64."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fusegen.errors import FusegenError
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node, Placeholder
from fusegen.runtime.generated_module import Blueprint, generated_module
from fusegen.runtime.gpu import check_gpu

# A kernel may be as far from the float64 result as PyTorch is, times this.
ALLOWED_RATIO = 2.0
# And off by this many units in the last place of the greatest result, where PyTorch is exact.
ALLOWED_UNITS = 4.0


@dataclass(frozen=True)
class OutputError:
    """How far an output is from the float64 reference: the greatest difference, of the kernels and
    of PyTorch in the same dtype, in units of the greatest finite result; NaN where a special value
    differs."""

    name: str
    shape: tuple[int, ...]
    kernels: float
    pytorch: float
    unit: float

    @property
    def agrees(self) -> bool:
        """Whether the kernels are about as good as PyTorch."""
        return self.kernels <= ALLOWED_RATIO * self.pytorch + ALLOWED_UNITS * self.unit


@dataclass(frozen=True)
class Comparison:
    """The errors of all outputs, and where the kernels ran."""

    place: str
    dtype: str
    outputs: tuple[OutputError, ...]

    @property
    def agrees(self) -> bool:
        """Whether every output is right."""
        return all(output.agrees for output in self.outputs)

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "agrees": self.agrees,
            "place": self.place,
            "dtype": self.dtype,
            "outputs": [
                {
                    "name": output.name,
                    "shape": list(output.shape),
                    "error": output.kernels,
                    "pytorch_error": output.pytorch,
                    "agrees": output.agrees,
                }
                for output in self.outputs
            ],
        }

    def as_text(self) -> str:
        """A line for each output."""
        lines = [f"{self.dtype} {self.place}; greatest error relative to the greatest result:"]
        for output in self.outputs:
            shape = ", ".join(map(str, output.shape))
            verdict = "agrees" if output.agrees else "DIFFERS"
            lines.append(
                f"  {output.name} [{shape}]: kernels {output.kernels:.2e}, "
                f"PyTorch {output.pytorch:.2e}: {verdict}"
            )
        return "\n".join(lines)


def compare(
    blueprint: Blueprint,
    graph: Graph,
    *,
    dtype: DType,
    device: str,
    precision: str,
    sizes: Mapping[str, int],
    seed: int,
) -> Comparison:
    """Run a new module of the blueprint on `device`, in evaluation, on inputs drawn from `seed`.

    `graph` is the model's in `dtype`; `precision` is the setting of float32 products for kernels
    and PyTorch; `sizes` gives each symbolic size. Raises FusegenError where
    there is no such device or PyTorch cannot compute the model, and whatever the build raises.
    """
    if device == "cuda":
        check_gpu()
    generated = generated_module(blueprint)
    torch.manual_seed(seed)
    with torch.no_grad(), float32_matmul_precision(precision):
        try:
            module = getattr(generated, blueprint.class_name)(
                device=device, dtype=torch_dtype(dtype)
            )
            inputs = [random_tensor(node, sizes, device) for node in graph.inputs]
            tensors = [*inputs, *(held_tensor(module.eval(), node) for node in graph.tensors)]
            eager = as_tuple(generated.reference(*tensors))
            exact = as_tuple(generated.reference(*(_widened(t, dtype) for t in tensors)))
        except (RuntimeError, IndexError, ValueError) as refusal:  # too large, or empty
            reason = str(refusal).partition("\n")[0]
            raise FusegenError(
                f"PyTorch cannot compute the model for these sizes: {reason}",
                "set others with --size, or with -D",
            ) from refusal
        kernels = as_tuple(module(*inputs))
    unit = torch.finfo(torch_dtype(dtype)).eps
    outputs = [
        OutputError(output.name, tuple(k.shape), error(k, x), error(e, x), unit)
        for output, k, e, x in zip(graph.outputs, kernels, eager, exact, strict=True)
    ]
    place = "on the GPU" if device == "cuda" else "in the emulator"
    return Comparison(place, dtype.value, tuple(outputs))


@contextmanager
def float32_matmul_precision(precision: str) -> Iterator[None]:
    """Within the block, `torch.set_float32_matmul_precision` holds."""
    try:
        before = torch.get_float32_matmul_precision()
    except RuntimeError:  # set in the newer way, for a back end, which hides it
        before = "highest"
    # The newer switches, which it sets as well, and to other values than were there at first.
    backends: Any = torch.backends
    switches = backends.cuda.matmul, backends.mkldnn.matmul
    kept = [switch.fp32_precision for switch in switches]
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
        for switch, value in zip(switches, kept, strict=True):
            switch.fp32_precision = value


def random_tensor(node: Node, sizes: Mapping[str, int], device: str) -> Tensor:
    """A random value for an input: normal, small integers, or truth values by its dtype."""
    shape = [size.evaluate(sizes) for size in node.shape]
    if node.dtype.is_float:
        return torch.randn(shape).to(device, torch_dtype(node.dtype))
    highest = 2 if node.dtype is DType.BOOL else 10
    return torch.randint(0, highest, shape).to(device, torch_dtype(node.dtype))


def error(actual: Tensor, exact: Tensor) -> float:
    """The greatest difference in units of the greatest finite exact element; NaN where one is
    special (NaN or infinite) and the other is not the same."""
    if exact.numel() == 0:
        return 0.0
    found, wanted = actual.double(), exact.double()
    finite = wanted.isfinite()
    if not torch.equal(found[~finite].nan_to_num(nan=0.5), wanted[~finite].nan_to_num(nan=0.5)):
        return math.nan
    if not finite.any():
        return 0.0
    greatest = wanted[finite].abs().max().item()
    return (found - wanted)[finite].abs().max().item() / (greatest or 1.0)


def held_tensor(module: torch.nn.Module, node: Node) -> Tensor:
    """The module's parameter or buffer that a placeholder stands for."""
    assert isinstance(node.operation, Placeholder)
    value: Any = module
    for name in node.operation.path.split("."):
        value = getattr(value, name)
    assert isinstance(value, Tensor)
    return value


def _widened(tensor: Tensor, dtype: DType) -> Tensor:
    return tensor.double() if tensor.dtype == torch_dtype(dtype) else tensor


def as_tuple(results: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]:
    """One result or several, as several."""
    return (results,) if isinstance(results, Tensor) else tuple(results)


def torch_dtype(dtype: DType) -> torch.dtype:
    """PyTorch's dtype of that name."""
    found = getattr(torch, dtype.value)
    assert isinstance(found, torch.dtype)
    return found
