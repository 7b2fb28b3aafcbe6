"""Runs a module on random inputs and measures it, and PyTorch beside it, against float64."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fusegen.errors import FusegenError
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph
from fusegen.runtime.generated_module import Blueprint, generated_module
from fusegen.runtime.gpu import check_gpu
from fusegen.runtime.tensors import (
    as_tuple,
    float32_matmul_precision,
    held_tensor,
    random_tensor,
    torch_dtype,
)

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


def _widened(tensor: Tensor, dtype: DType) -> Tensor:
    return tensor.double() if tensor.dtype == torch_dtype(dtype) else tensor
