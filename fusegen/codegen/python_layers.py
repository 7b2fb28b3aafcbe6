"""The members of the emitted `nn.Module`: layers of `torch.nn`, bare parameters and buffers."""

from __future__ import annotations

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import LayerInstance
from fusegen.ops.record import REQUIRED
from fusegen.ops.registry import LAYERS
from fusegen.ops.twin import literal

INITIALISERS = {
    "zeros": "torch.zeros",
    "ones": "torch.ones",
    "normal": "torch.randn",
    "uniform": "torch.rand",
}


def member_statements(layers: tuple[LayerInstance, ...]) -> tuple[str, ...]:
    """The statements that make the members, in order, so that keys and random numbers come as in
    the plain module. A model used as a layer becomes an empty `nn.Module` with members."""
    statements: list[str] = []
    containers: set[str] = set()
    for layer in layers:
        parts = layer.path.split(".")
        for depth in range(1, len(parts)):
            container = ".".join(parts[:depth])
            if container not in containers:
                containers.add(container)
                statements.append(f"self.{container} = nn.Module()")
        statements.append(_member(layer))
    return tuple(statements)


def _member(layer: LayerInstance) -> str:
    if layer.kind == "Parameter":
        return f"self.{layer.path} = nn.Parameter({_tensor(layer)})"
    if layer.kind == "Buffer":
        owner, _, name = f"self.{layer.path}".rpartition(".")
        return f'{owner}.register_buffer("{name}", {_tensor(layer)})'
    return f"self.{layer.path} = nn.{layer.kind}({', '.join(_arguments(layer))})"


def _arguments(layer: LayerInstance) -> list[str]:
    """The constructor's arguments, those with their defaults left out."""
    record = LAYERS[layer.kind]
    arguments = []
    for parameter in record.parameters:
        value = layer.arguments[parameter.name]
        if parameter.default is REQUIRED:
            arguments.append(literal(value))
        elif value != parameter.default:
            arguments.append(f"{parameter.name}={literal(value)}")
    if record.tensors(layer.arguments):
        arguments += ["device=device", "dtype=dtype"]
    return arguments


def _tensor(layer: LayerInstance) -> str:
    """A bare tensor's first value."""
    shape, init = layer.arguments.integers("shape"), layer.arguments["init"]
    own = layer.arguments["dtype"]
    dtype = f"torch.{own.value}" if isinstance(own, DType) else "dtype"
    factory = f"device=device, dtype={dtype}"
    if isinstance(init, str):
        return f"{INITIALISERS[init]}({literal(shape)}, {factory})"
    assert isinstance(init, (int, float))
    # An integer would make a tensor of integers where no dtype is given.
    number = init if isinstance(own, DType) and not own.is_float else float(init)
    return f"torch.full({literal(shape)}, {literal(number)}, {factory})"
