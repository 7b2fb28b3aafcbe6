"""Times a model's products on tiles of several widths, each in a module of its own."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence

import torch

from fusegen.errors import FusegenError
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph
from fusegen.plan.kernels.product_forms import TileKind
from fusegen.runtime.builds import cached_builds
from fusegen.runtime.comparison import float32_matmul_precision, random_tensor, torch_dtype
from fusegen.runtime.generated_module import Blueprint, generated_module
from fusegen.runtime.timing import CacheFlush

ROUNDS = 15
WARM_UP = 3
KERNEL = r"(?P<name>\w+?)_(?P<columns>\d+)(?:_by_(?P<parts>\d+))?_tensor_kernel"
# Widths differ by the order in which few parts are added at most.
ALLOWED_DIFFERENCE = 0.05


def time_products(
    candidates: Mapping[TileKind, Blueprint],
    graph: Graph,
    sizes: Mapping[str, int],
    *,
    variant: str,
    dtype: DType,
    precision: str,
) -> dict[TileKind, dict[str, float]]:
    """The median time of each kernel on tiles, in microseconds, by their kind and by the plan's
    name for it.

    All candidates have the same parameters and inputs and take turns in one run, with the L2 cache
    overwritten before each call; `variant` is the operator that they then need. Raises FusegenError
    where the GPU's memory does not suffice or results differ, and whatever the build raises.
    """
    cached_builds([blueprint.request(variant) for blueprint in candidates.values()])
    with torch.no_grad(), float32_matmul_precision(precision):
        try:
            modules: list[torch.nn.Module] = []
            for blueprint in candidates.values():
                made = getattr(generated_module(blueprint), blueprint.class_name)
                module = made(device="cuda", dtype=torch_dtype(dtype)).eval()
                if modules:
                    module.load_state_dict(modules[0].state_dict(), assign=True)
                modules.append(module)
            inputs = [random_tensor(node, sizes, "cuda") for node in graph.inputs]
            _check([_results(module(*inputs)) for module in modules])
            launches = _profiled(modules, inputs)
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


def _results(outputs: object) -> list[torch.Tensor]:
    return [outputs] if isinstance(outputs, torch.Tensor) else list(outputs)  # type: ignore[call-overload]


def _check(results: Sequence[Sequence[torch.Tensor]]) -> None:
    """Refuse candidates whose results are not the first one's."""
    for others in results[1:]:
        for expected, actual in zip(results[0], others, strict=True):
            same_nan = torch.equal(actual.isnan(), expected.isnan())
            difference = (actual.double() - expected.double()).nan_to_num().norm()
            allowed = ALLOWED_DIFFERENCE * expected.double().nan_to_num().norm()
            if not same_nan or difference > allowed:
                raise FusegenError(
                    "results on other tiles differ, so nothing is remembered",
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
