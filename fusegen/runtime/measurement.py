"""Times a module's kernels on the GPU, and PyTorch's own ways to run the same chain beside it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fusegen.errors import FusegenError
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph
from fusegen.plan.cost import H100, Cost, Device
from fusegen.runtime.generated_module import Blueprint, generated_module
from fusegen.runtime.tensors import (
    float32_matmul_precision,
    held_tensor,
    random_tensor,
    torch_dtype,
)
from fusegen.runtime.timing import CacheFlush, time_together

PROFILED_CALLS = 20
COPIED_BYTES = 1 << 30

Compile = Callable[[Callable[..., Any]], Callable[..., Any]]
PEERS: dict[str, Compile] = {
    "compile": torch.compile,
    "max-autotune": lambda function: torch.compile(function, mode="max-autotune"),
}


@dataclass(frozen=True)
class KernelTime:
    """A kernel of the plan: its time on the GPU in µs a call, None where the profiler has not seen
    it, and the bytes and operations it is for, with the least time they take on this card in µs,
    None where these are not known."""

    name: str
    time: float | None
    bytes: int | None
    operations: int | None
    floor: float | None

    @property
    def of_floor(self) -> float | None:
        """Which part of the time the floor is."""
        return self.floor / self.time if self.time and self.floor is not None else None


@dataclass(frozen=True)
class Measurement:
    """`kernels` in the plan's order, `library` the time of all other kernels of a call in µs,
    `totals` the median time of a call of each candidate in µs, `refused` the peers that could not
    be compiled, and why. `bandwidth` is that of a copy in the same run, in bytes a second."""

    card: str
    dtype: str
    bandwidth: float
    kernels: tuple[KernelTime, ...]
    library: float
    totals: dict[str, float]
    refused: dict[str, str]


def measure(
    blueprint: Blueprint,
    graph: Graph,
    costs: Mapping[str, Cost | None],
    *,
    dtype: DType,
    precision: str,
    sizes: Mapping[str, int],
    peers: Sequence[str],
) -> Measurement:
    """Measure a new module of the blueprint, in evaluation, on random inputs.

    `costs` are the plan's kernels with what they cost at these sizes, None where that is not
    known. Raises FusegenError where
    there is no GPU or its memory does not suffice, and whatever the build raises.
    """
    require_gpu()
    generated = generated_module(blueprint)
    with torch.no_grad(), float32_matmul_precision(precision):
        try:
            made = getattr(generated, blueprint.class_name)(device="cuda", dtype=torch_dtype(dtype))
            inputs = [random_tensor(node, sizes, "cuda") for node in graph.inputs]
            tensors = [*inputs, *(held_tensor(made.eval(), node) for node in graph.tensors)]
            candidates: dict[str, Callable[[], object]] = {
                "fusegen": lambda: made(*inputs),
                "eager": lambda: generated.reference(*tensors),
            }
            refused = _add_peers(candidates, peers, generated.reference, tensors)
            totals = time_together(candidates)
            found, library = attributed(
                _profiled(candidates["fusegen"]), tuple(costs), PROFILED_CALLS
            )
            bandwidth = _bandwidth()
        except torch.OutOfMemoryError as refusal:
            raise FusegenError(
                "the GPU's memory does not suffice for these sizes", "set others with --size"
            ) from refusal
    card = replace(H100, bandwidth=bandwidth)
    kernels = tuple(_kernel_time(name, found.get(name), cost, card) for name, cost in costs.items())
    return Measurement(
        torch.cuda.get_device_name(),
        dtype.value,
        bandwidth,
        kernels,
        library,
        {name: time * 1e3 for name, time in totals.items()},
        refused,
    )


def _kernel_time(name: str, time: float | None, cost: Cost | None, card: Device) -> KernelTime:
    if cost is None:
        return KernelTime(name, time, None, None, None)
    floor = cost.floor(card) * 1e6
    return KernelTime(name, time, cost.reads + cost.writes, cost.operations, floor)


def require_gpu() -> None:
    """FusegenError where PyTorch finds no GPU."""
    if not torch.cuda.is_available():
        raise FusegenError(
            "there is no CUDA GPU here, and only a GPU's times say anything",
            "see each kernel's bytes, operations and floor with `fusegen explain`",
        )


def attributed(
    launches: Iterable[tuple[str, float]], kernels: Sequence[str], calls: int
) -> tuple[dict[str, float], float]:
    """The time a call of each of `kernels`, and of all else, from `launches` during `calls` calls:
    the names the profiler has for what ran on the GPU, with their times.

    A kernel `rows` may have several forms: `fusegen::rows_kernel<4, true>`, `rows_tensor_kernel`.
    """
    times: dict[str, float] = {}
    rest = 0.0
    for launched, time in launches:
        match = re.search(r"\bfusegen::(?:\w+::)*(\w+_kernel)\b", launched)
        owner = "" if match is None else _owner(match.group(1), kernels)
        if owner:
            times[owner] = times.get(owner, 0.0) + time / calls
        else:
            rest += time / calls
    return times, rest


def _owner(function: str, kernels: Sequence[str]) -> str:
    """The kernel of the plan that a function belongs to: of two whose names both begin it, the
    longer."""
    fitting = [name for name in kernels if function.startswith(f"{name}_")]
    return max(fitting, key=len, default="")


def _add_peers(
    candidates: dict[str, Callable[[], object]],
    peers: Sequence[str],
    reference: Callable[..., Any],
    tensors: Sequence[Tensor],
) -> dict[str, str]:
    refused = {}
    for name in peers:
        torch._dynamo.reset()
        compiled = PEERS[name](reference)
        try:
            compiled(*tensors)
        except Exception as failure:  # whatever a compiler raises
            refused[name] = (str(failure) or type(failure).__name__).partition("\n")[0][:200]
        else:
            candidates[name] = _call(compiled, tensors)
    return refused


def _call(function: Callable[..., Any], tensors: Sequence[Tensor]) -> Callable[[], object]:
    return lambda: function(*tensors)


def _profiled(call: Callable[[], object]) -> list[tuple[str, float]]:
    """What runs on the GPU during PROFILED_CALLS calls, by the profiler, with µs; the copies that
    flush the cache before each are left out."""
    flush = CacheFlush()
    call()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        for _ in range(PROFILED_CALLS):
            flush()
            call()
        torch.cuda.synchronize()
    return [
        (event.name, event.time_range.elapsed_us())
        for event in profiler.events()
        if event.device_type.name == "CUDA" and not event.name.startswith("Memcpy DtoD")
    ]


def _bandwidth() -> float:
    source = torch.rand(COPIED_BYTES // 4, device="cuda")
    (milliseconds,) = time_together({"clone": source.clone}).values()
    return 2 * COPIED_BYTES / milliseconds * 1e3
