"""One of two processes of `test_distributed`: trains a generated chain on its share, and writes
how far its gradients are from the single process's.

Arguments: this process's rank, a file through which they meet, the file for the results, and the
kind of device: on `cpu` they talk by gloo, for the emulated kernels and the reference; on `cuda` by
NCCL, each with a GPU of its own.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from fusegen.runtime.request import Target
from tests.modules import load
from tests.runtime.plain import CHAIN, closeness, inputs, pair

PROCESSES = 2
ROWS = 6
Gradients = Mapping[str, Tensor]


def rows(module: nn.Module) -> Tensor:
    """The inputs, where the module is."""
    return inputs(rows=ROWS).to(next(module.parameters()).device)


def own_rows(module: nn.Module, rank: int) -> Tensor:
    return rows(module).chunk(PROCESSES)[rank]


def single_process(plain: nn.Module) -> Gradients:
    plain(rows(plain)).square().mean().backward()
    return {name: p.grad for name, p in plain.named_parameters() if p.grad is not None}


def by_batch(ours: nn.Module, rank: int, target: Target) -> Gradients:
    """Every process has all parameters and half of the rows."""
    module = DistributedDataParallel(ours)
    module(own_rows(ours, rank)).square().mean().backward()
    return {name: p.grad for name, p in ours.named_parameters() if p.grad is not None}


def by_batch_and_parameter(ours: nn.Module, rank: int, target: Target) -> Gradients:
    """Every process also keeps half of each parameter only."""
    own = own_rows(ours, rank)
    fully_shard(ours, mesh=init_device_mesh(own.device.type, (PROCESSES,)))
    ours(own).square().mean().backward()
    return {name: p.grad.full_tensor() for name, p in ours.named_parameters()}


def by_column(ours: nn.Module, rank: int, target: Target) -> Gradients:
    """Every process has all rows and half of the columns: whole groups of the normalisation."""
    half = load(CHAIN, target)(num_groups=4 // PROCESSES, columns=24 // PROCESSES)
    half.to(ours.weight.device)
    own = {name: value.chunk(PROCESSES)[rank] for name, value in ours.state_dict().items()}
    half.load_state_dict(own)
    # The mean over all columns is that of the halves' means.
    (half(rows(half)).square().mean() / PROCESSES).backward()
    found = {}
    for name, parameter in half.named_parameters():
        parts = [torch.empty_like(parameter) for _ in range(PROCESSES)]
        dist.all_gather(parts, parameter.grad)
        found[name] = torch.cat(parts)
    return found


WAYS: dict[str, Callable[[nn.Module, int, Target], Gradients]] = {
    "by batch": by_batch,
    "by batch and parameter": by_batch_and_parameter,
    "by column": by_column,
}


def main(rank: int, meeting: Path, results: Path, device: str) -> None:
    torch.set_num_threads(1)
    if device == "cuda":
        torch.cuda.set_device(rank)
    dist.init_process_group(
        "nccl" if device == "cuda" else "gloo",
        init_method=f"file://{meeting}",
        rank=rank,
        world_size=PROCESSES,
    )
    found: dict[str, dict[str, float]] = {}
    for target in Target if device == "cpu" else [Target.CUDA]:
        for way, gradients in WAYS.items():
            ours, plain = (module.to(device) for module in pair(target))
            expected = single_process(plain)
            actual = gradients(ours, rank, target)
            assert actual.keys() == expected.keys()
            found[f"{target.value} {way}"] = {
                name: closeness(actual[name], expected[name]) for name in expected
            }
    results.write_text(json.dumps(found))
    dist.barrier()  # neither leaves while the other still listens
    # Taking gloo's threads down aborts one process in thirty or so ("terminate called without an
    # active exception"), when all is done.
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4])
