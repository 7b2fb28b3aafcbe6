"""Times a model's products on tiles of several widths, each in a module of its own."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from fusegen.errors import FusegenError
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph
from fusegen.plan.kernels.product_forms import TileKind
from fusegen.runtime.builds import cached_builds
from fusegen.runtime.generated_module import Blueprint, generated_module
from fusegen.runtime.tensors import (
    as_tuple,
    float32_matmul_precision,
    held_tensor,
    random_tensor,
    torch_dtype,
)
from fusegen.runtime.timing import CacheFlush

ROUNDS = 15
WARM_UP = 3
KERNEL = r"(?P<name>\w+?)_(?P<columns>\d+)(?:_by_(?P<parts>\d+))?_tensor_kernel"

Results = Sequence[torch.Tensor]
Judge = Callable[
    [Graph, Sequence[torch.Tensor], Results, Sequence[Results], Mapping[str, int]],
    Sequence[str | None],
]
"""Given a graph, its tensors, PyTorch's results, those of several modules, and the symbolic sizes:
what is wrong with each module's, if anything is."""


def time_products(
    candidates: Mapping[TileKind, Blueprint],
    graph: Graph,
    sizes: Mapping[str, int],
    *,
    variant: str,
    dtype: DType,
    precision: str,
    judge: Judge,
) -> dict[TileKind, dict[str, float]]:
    """The median time of each kernel on tiles, in microseconds, by their kind and by the plan's
    name for it.

    All candidates have the same parameters and inputs and take turns in one run, with the L2 cache
    overwritten before each call; `variant` is the operator that they then need. Nothing is timed
    that `judge` calls wrong. Raises FusegenError for that, and where the GPU's memory does not
    suffice, and whatever the build raises.
    """
    cached_builds([blueprint.request(variant) for blueprint in candidates.values()])
    with torch.no_grad(), float32_matmul_precision(precision):
        try:
            modules: dict[TileKind, torch.nn.Module] = {}
            for kind, blueprint in candidates.items():
                made = getattr(generated_module(blueprint), blueprint.class_name)
                module = made(device="cuda", dtype=torch_dtype(dtype)).eval()
                for first in [*modules.values()][:1]:
                    module.load_state_dict(first.state_dict(), assign=True)
                modules[kind] = module
            inputs = [random_tensor(node, sizes, "cuda") for node in graph.inputs]
            reference = generated_module(next(iter(candidates.values()))).reference
            check_results(modules, reference, graph, inputs, sizes, judge)
            launches = _profiled([*modules.values()], inputs)
        except torch.OutOfMemoryError as refusal:
            raise FusegenError(
                "the GPU's memory does not suffice for these sizes", "set others with --size"
            ) from refusal
    return medians_on_tiles(launches)


def medians_on_tiles(
    launches: Iterable[tuple[str, float]],
) -> dict[TileKind, dict[str, float]]:
    """The median of the times of each kernel on tiles, from the names a profiler has for what ran,
    such as `fusegen::gemm_128_by_2_tensor_kernel(CUtensorMap_st, int)`."""
    times: dict[TileKind, dict[str, list[float]]] = {}
    for launched, time in launches:
        match = re.search(rf"\bfusegen::(?:\w+::)*{KERNEL}\b", launched)
        if match is not None:
            kind = TileKind(int(match["columns"]), int(match["parts"] or 1))
            times.setdefault(kind, {}).setdefault(match["name"], []).append(time)
    return {
        kind: {name: statistics.median(found) for name, found in of.items()}
        for kind, of in times.items()
    }


def _named_sizes(graph: Graph, sizes: Mapping[str, int]) -> dict[str, int]:
    """The symbolic sizes of the inputs, each with its value."""
    symbols = (s for node in graph.inputs for size in node.shape for s in size.symbols())
    return {symbol.name: sizes[symbol.name] for symbol in symbols}


def check_results(
    modules: Mapping[TileKind, torch.nn.Module],
    reference: Callable[..., Any],
    graph: Graph,
    inputs: Sequence[torch.Tensor],
    sizes: Mapping[str, int],
    judge: Judge,
) -> None:
    """FusegenError if a module's results for these inputs are wrong. All modules have the first
    one's parameters; `reference` is what PyTorch computes in their place, from all tensors."""
    first = next(iter(modules.values()))
    tensors = [*inputs, *(held_tensor(first, node) for node in graph.tensors)]
    found = judge(
        graph,
        tensors,
        as_tuple(reference(*tensors)),
        [as_tuple(module(*inputs)) for module in modules.values()],
        _named_sizes(graph, sizes),
    )
    for kind, wrong in zip(modules, found, strict=True):
        if wrong:
            parts = f" and {kind.parts} parts of K" if kind.parts > 1 else ""
            raise FusegenError(
                f"results on tiles of {kind.columns} columns{parts} are wrong, so nothing is "
                f"remembered: {wrong}",
                "run `fusegen verify` on the model, and report what it finds",
            )


def _profiled(
    modules: Sequence[torch.nn.Module], inputs: Sequence[torch.Tensor]
) -> list[tuple[str, float]]:
    """What runs on the GPU in all rounds, by the profiler, with microseconds."""
    flush = CacheFlush()
    for module in modules:
        for _ in range(WARM_UP):
            module(*inputs)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        for _ in range(ROUNDS):
            for module in modules:
                flush()
                module(*inputs)
        torch.cuda.synchronize()
    return [
        (event.name, event.time_range.elapsed_us())
        for event in profiler.events()
        if event.device_type.name == "CUDA"
    ]
