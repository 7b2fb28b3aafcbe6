"""Every layer against the module of its name in torch.nn."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import nn

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Attributes, AttributeValue, Graph, Output
from fusegen.ops.record import OperationError
from fusegen.ops.registry import LAYERS
from fusegen.passes.decompose import decompose
from tests.ops.examples import fixed, placeholder, torch_dtype
from tests.reference import evaluate

Case = tuple[str, dict[str, AttributeValue], Sequence[int]]
NORMS = [
    (f"{kind}Norm{rank}d", {"num_features": 3, **more}, (4, 3, *(5, 4, 2)[:rank]))
    for kind in ("Batch", "Instance")
    for rank in (1, 2, 3)
    for more in ({}, {"affine": True, "eps": 1e-2})
]
CONVOLUTIONS = [
    (
        f"Conv{'Transpose' * transposed}{rank}d",
        {"in_channels": 4, "out_channels": 6, "kernel_size": 3, "padding": 1, **more},
        (2, 4, *(7, 6, 5)[:rank]),
    )
    for rank in (1, 2, 3)
    for transposed in (False, True)
    for more in ({}, {"stride": 2, "groups": 2, "bias": False}, {"dilation": 2})
]
POOLS = [
    (f"{kind}Pool{rank}d", {"kernel_size": 2, **more}, (2, 3, *(7, 6, 5)[:rank]))
    for kind in ("Max", "Avg")
    for rank in (1, 2, 3)
    for more in ({}, {"stride": 1, "padding": 1}, {"ceil_mode": True})
]
DROPOUTS = ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d")
CASES: list[Case] = [
    ("Linear", {"in_features": 8, "out_features": 5}, (2, 3, 8)),
    ("Linear", {"in_features": 8, "out_features": 5, "bias": False}, (8,)),
    *CONVOLUTIONS,
    *POOLS,
    ("AvgPool2d", {"kernel_size": 2, "divisor_override": 3}, (2, 3, 6, 6)),
    *NORMS,
    ("BatchNorm1d", {"num_features": 3}, (4, 3)),
    ("BatchNorm2d", {"num_features": 3, "track_running_stats": False}, (4, 3, 2, 2)),
    ("InstanceNorm1d", {"num_features": 3, "affine": True}, (3, 5)),
    ("GroupNorm", {"num_groups": 2, "num_channels": 6}, (2, 6, 4)),
    ("GroupNorm", {"num_groups": 4, "num_channels": 4, "affine": False}, (2, 4, 1, 1)),
    ("LayerNorm", {"normalized_shape": 8}, (2, 3, 8)),
    ("LayerNorm", {"normalized_shape": (3, 8), "bias": False}, (2, 3, 8)),
    ("LayerNorm", {"normalized_shape": 8, "elementwise_affine": False}, (2, 8)),
    ("RMSNorm", {"normalized_shape": 8}, (2, 3, 8)),
    ("RMSNorm", {"normalized_shape": 8, "eps": 1e-2, "elementwise_affine": False}, (8,)),
    ("Flatten", {}, (2, 3, 4)),
    ("Flatten", {"start_dim": 0, "end_dim": -2}, (2, 3, 4)),
    ("Unflatten", {"dim": 1, "unflattened_size": (2, -1)}, (2, 6)),
    ("Softmax", {"dim": -1}, (2, 6)),
    ("LogSoftmax", {"dim": 0}, (2, 6)),
    ("GELU", {"approximate": "tanh"}, (2, 6)),
    ("LeakyReLU", {"negative_slope": 0.3}, (2, 6)),
    ("Threshold", {"threshold": 0.5, "value": -1.0}, (2, 6)),
    ("Hardtanh", {"min_val": -0.5, "max_val": 0.25}, (2, 6)),
    ("Softplus", {"beta": 2.0, "threshold": 1.0}, (2, 6)),
    ("Hardshrink", {"lambd": 0.2}, (2, 6)),
    *((name, {}, (2, 6)) for name in ("ReLU", "ReLU6", "ELU", "SELU", "CELU", "GELU", "SiLU")),
    *((name, {}, (2, 6)) for name in ("Mish", "Sigmoid", "LogSigmoid", "Tanh", "LeakyReLU")),
    *((name, {}, (2, 6)) for name in ("Hardtanh", "Hardsigmoid", "Hardswish", "Softplus")),
    *((name, {}, (2, 6)) for name in ("Softsign", "Softshrink", "Hardshrink", "Tanhshrink")),
    ("Identity", {}, (2, 6)),
    *((name, {"p": 0.0}, (2, 3, 4, 5, 6)[: rank + 2]) for rank, name in enumerate(DROPOUTS)),
]


def label(case: Case) -> str:
    """The test's name."""
    return f"{case[0]}({', '.join(f'{k}={v}' for k, v in case[1].items())})"


def module_for(name: str, arguments: dict[str, AttributeValue]) -> nn.Module:
    """PyTorch's layer in float64, with random parameters and running statistics."""
    torch.manual_seed(3)
    module: nn.Module = getattr(nn, name)(**arguments).double()
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_floating_point():
            torch.nn.init.uniform_(tensor, 0.5, 1.5)
    return module


def attributes_for(name: str, arguments: dict[str, AttributeValue]) -> Attributes:
    """The layer's arguments, with defaults filled in."""
    declared = LAYERS[name].parameters
    values = {p.name: arguments.get(p.name, p.default) for p in declared}
    return Attributes(tuple(values.items()))  # type: ignore[arg-type]


@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
@pytest.mark.parametrize("case", CASES, ids=label)
def test_layer_equals_torch_nn(case: Case, training: bool) -> None:
    name, arguments, shape = case
    layer, attributes = LAYERS[name], attributes_for(name, arguments)
    module = module_for(name, arguments).train(training)
    state = module.state_dict()
    own = layer.tensors(attributes)
    assert [(t.name, t.shape) for t in own] == [(k, tuple(v.shape)) for k, v in state.items()]
    assert {t.name for t in own if t.trained} == dict(module.named_parameters()).keys()
    assert all(torch_dtype(t.dtype or DType.FLOAT64) is state[t.name].dtype for t in own)

    x = placeholder(fixed(shape, DType.FLOAT64))
    held = {t.name: placeholder(fixed(t.shape, t.dtype or DType.FLOAT64), t.name) for t in own}
    values = {x: torch.randn(shape, dtype=torch.float64, generator=torch.manual_seed(5))}
    values |= {node: state[key].clone() for key, node in held.items()}
    result = layer.apply((x,), held, attributes, training)
    roots = (result,)
    tracked = training and layer.statistics is not None and "running_mean" in held
    if tracked:
        assert layer.statistics is not None
        roots = (result, *layer.statistics(x))
    graph = decompose(Graph("g", (x,), (), tuple(Output("y", r) for r in roots)))
    expected = module(values[x])
    for outcome in (evaluate(roots, values), evaluate(graph.roots, values)):
        torch.testing.assert_close(outcome[0], expected, rtol=1e-11, atol=1e-11)
        if tracked:  # momentum is 0.1
            after = module.state_dict()
            for key, statistic in zip(("running_mean", "running_var"), outcome[1:], strict=True):
                updated = 0.9 * values[held[key]] + 0.1 * statistic
                torch.testing.assert_close(updated, after[key], rtol=1e-12, atol=1e-12)


def test_every_layer_has_a_case() -> None:
    assert {name for name, _, _ in CASES} == LAYERS.keys()


def test_softmax_needs_a_dim() -> None:
    layer = LAYERS["Softmax"]
    x = placeholder(fixed((2, 3), DType.FLOAT32))
    with pytest.raises(OperationError) as error:
        layer.apply((x,), {}, Attributes.of(dim=None), False)
    assert error.value.hint == "say which one: Softmax(dim=-1)"


def test_layers_check_the_rank_of_their_input() -> None:
    layer = LAYERS["BatchNorm2d"]
    attributes = attributes_for("BatchNorm2d", {"num_features": 3})
    held = {t.name: placeholder(fixed(t.shape, DType.FLOAT32)) for t in layer.tensors(attributes)}
    x = placeholder(fixed((2, 3), DType.FLOAT32))
    with pytest.raises(OperationError, match="BatchNorm2d needs an input of rank 4"):
        layer.apply((x,), held, attributes, False)
