"""Every example elaborates, and has exactly the tensors of the plain `nn.Module` it replaces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from fusegen.frontend import Source, elaborate, parse
from fusegen.ir.graph import Placeholder

EXAMPLES = Path(__file__).parents[2] / "examples"


def with_parameters(module: nn.Module, **shapes: tuple[int, ...]) -> nn.Module:
    for name, shape in shapes.items():
        module.register_parameter(name, nn.Parameter(torch.zeros(shape)))
    return module


def chain_21() -> nn.Module:
    module = nn.Module()
    module.conv = nn.Conv2d(8, 32, 3)
    with_parameters(module, bias=(32, 1, 1), scale=(32, 1, 1))
    module.group_norm = nn.GroupNorm(8, 32)
    return module


def chain_62() -> nn.Module:
    module = nn.Module()
    module.fc = nn.Linear(8192, 8192, device="meta")
    module.gn = nn.GroupNorm(512, 8192)
    module.leaky_relu = nn.LeakyReLU(negative_slope=0.01)
    return module


def chain_64() -> nn.Module:
    module = nn.Module()
    module.linear = nn.Linear(8192, 8192, device="meta")
    return module


def chain_88() -> nn.Module:
    module = nn.Module()
    module.gemm = nn.Linear(8192, 8192, device="meta")
    module.group_norm = nn.GroupNorm(256, 8192)
    return with_parameters(module, multiply_weight=(8192,))


def chain_94() -> nn.Module:
    module = nn.Module()
    module.gemm = nn.Linear(8192, 8192, device="meta")
    with_parameters(module, bias=(8192,))
    module.hardtanh = nn.Hardtanh()
    module.mish = nn.Mish()
    module.groupnorm = nn.GroupNorm(256, 8192)
    return module


def row_norm() -> nn.Module:
    module = nn.Module()
    module.norm = nn.RMSNorm(1024, 1e-6)
    return with_parameters(module, gain=(1024,))


def mlp_residual() -> nn.Module:
    def block() -> nn.Module:
        module = nn.Module()
        module.norm = nn.LayerNorm(512)
        module.expand = nn.Linear(512, 2048)
        module.contract = nn.Linear(2048, 512)
        return module

    module = nn.Module()
    module.first, module.second = block(), block()
    module.head = nn.Linear(512, 10)
    return module


def digits_mlp() -> nn.Module:
    module = nn.Module()
    module.fc1 = nn.Linear(64, 128)
    module.norm = nn.LayerNorm(128)
    module.fc2 = nn.Linear(128, 128)
    module.fc3 = nn.Linear(128, 10)
    return module


def transformer_block() -> nn.Module:
    module = nn.Module()
    module.norm_1 = nn.LayerNorm(1024)
    module.qkv = nn.Linear(1024, 3072)
    module.project = nn.Linear(1024, 1024)
    module.norm_2 = nn.LayerNorm(1024)
    module.expand = nn.Linear(1024, 4096)
    module.contract = nn.Linear(4096, 1024)
    return module


MODULES: dict[str, Callable[[], nn.Module]] = {
    "digits_mlp.fuse": digits_mlp,
    "kernelbench/l2_21.fuse": chain_21,
    "kernelbench/l2_62.fuse": chain_62,
    "kernelbench/l2_64.fuse": chain_64,
    "kernelbench/l2_88.fuse": chain_88,
    "kernelbench/l2_94.fuse": chain_94,
    "mlp_residual.fuse": mlp_residual,
    "row_norm.fuse": row_norm,
    "transformer_block.fuse": transformer_block,
}


def test_every_example_has_a_plain_module_here() -> None:
    found = {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("*.fuse")}
    assert found == MODULES.keys()


@pytest.mark.parametrize("name", MODULES)
def test_tensors_are_those_of_the_plain_module(name: str) -> None:
    elaboration = elaborate(parse(Source.read(EXAMPLES / name)))
    tensors = {}
    for node in elaboration.graph.tensors:
        assert isinstance(node.operation, Placeholder)
        tensors[node.operation.path] = str(node.type)
    plain = {
        key: f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
        for key, tensor in MODULES[name]().state_dict().items()
    }
    assert list(tensors.items()) == list(plain.items())
    assert elaboration.warnings == ()


OUTPUTS = {
    "digits_mlp.fuse": ["float32[batch, 10]"],
    "kernelbench/l2_21.fuse": ["float32[batch, 32, -2 + height, -2 + width]"],
    "kernelbench/l2_62.fuse": ["float32[batch, 8192]"],
    "kernelbench/l2_64.fuse": ["float32[batch, 1]"],
    "kernelbench/l2_88.fuse": ["float32[batch, 8192]"],
    "kernelbench/l2_94.fuse": ["float32[batch, 8192]"],
    "mlp_residual.fuse": ["float32[batch, 10]"],
    "row_norm.fuse": ["float32[rows, 1024]", "float32[rows]"],
    "transformer_block.fuse": ["float32[batch, time, 1024]"],
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_outputs(name: str) -> None:
    graph = elaborate(parse(Source.read(EXAMPLES / name))).graph
    assert [str(output.node.type) for output in graph.outputs] == OUTPUTS[name]
    assert graph.description


SMALL = {
    "kernelbench/l2_21.fuse": {
        "in_channels": 2,
        "out_channels": 8,
        "kernel_size": 2,
        "num_groups": 4,
    },
    "kernelbench/l2_62.fuse": {"input_size": 12, "hidden_size": 16, "num_groups": 4},
    "kernelbench/l2_64.fuse": {"in_features": 12, "out_features": 16},
    "kernelbench/l2_88.fuse": {"in_features": 12, "out_features": 16, "num_groups": 4},
    "kernelbench/l2_94.fuse": {"in_features": 12, "out_features": 16, "num_groups": 4},
}


@pytest.mark.parametrize("name", SMALL)
def test_model_arguments_shrink_the_chain(name: str) -> None:
    graph = elaborate(parse(Source.read(EXAMPLES / name)), arguments=SMALL[name]).graph
    assert dict(graph.arguments) == SMALL[name]
    assert all(node.type.count.constant <= 16 * 12 for node in graph.tensors)  # type: ignore[operator]
