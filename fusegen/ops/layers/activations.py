"""Layers without parameters: activations and changes of shape."""

from __future__ import annotations

from fusegen.ir.graph import Attributes, AttributeValue, Node
from fusegen.ops.composite import softmax, views
from fusegen.ops.construct import call
from fusegen.ops.parameters import integer, sizes
from fusegen.ops.pointwise import activations, functions
from fusegen.ops.record import Layer, LayerTensor, OperationError, Parameter, Record


def no_tensors(_: Attributes) -> tuple[LayerTensor, ...]:
    """The tensors of a layer that has none."""
    return ()


def stateless(
    name: str,
    record: Record,
    parameters: tuple[Parameter, ...] | None = None,
    renamed: dict[str, str] | None = None,
) -> Layer:
    """A layer that applies a function; its parameters are the function's where not given, and
    `renamed` tells the function's name for one that differs."""
    names = renamed or {}
    own = record.parameters[1:] if parameters is None else parameters

    def apply(
        inputs: tuple[Node, ...], _: dict[str, Node], attributes: Attributes, training: bool
    ) -> Node:
        arguments: dict[str, AttributeValue] = {
            names.get(key, key): value for key, value in attributes.items()
        }
        return call(record, inputs, **arguments)

    return Layer(name, own, tensors=no_tensors, apply=apply, summary=record.summary)


def _along_dim(name: str, record: Record) -> Layer:
    """A softmax layer: PyTorch lets its dim be left out and then guesses one, with a warning."""
    plain = stateless(name, record, (integer("dim", None),))

    def apply(
        inputs: tuple[Node, ...], tensors: dict[str, Node], attributes: Attributes, training: bool
    ) -> Node:
        if attributes["dim"] is None:
            raise OperationError(f"{name} needs a dim", f"say which one: {name}(dim=-1)")
        return plain.apply(inputs, tensors, attributes, training)

    return Layer(name, plain.parameters, tensors=no_tensors, apply=apply, summary=record.summary)


def _identity(
    inputs: tuple[Node, ...], _: dict[str, Node], attributes: Attributes, training: bool
) -> Node:
    return inputs[0]


IDENTITY = Layer(
    "Identity", (), tensors=no_tensors, apply=_identity, summary="Its input, unchanged."
)

LAYERS = (
    stateless("Sigmoid", activations.SIGMOID),
    stateless("LogSigmoid", activations.LOGSIGMOID),
    stateless("Tanh", functions.TANH),
    stateless("ReLU", activations.RELU),
    stateless("ReLU6", activations.RELU6),
    stateless("LeakyReLU", activations.LEAKY_RELU),
    stateless("ELU", activations.ELU),
    stateless("SELU", activations.SELU),
    stateless("CELU", activations.CELU),
    stateless("GELU", activations.GELU),
    stateless("SiLU", activations.SILU),
    stateless("Mish", activations.MISH),
    stateless("Softplus", activations.SOFTPLUS),
    stateless("Softsign", activations.SOFTSIGN),
    stateless("Softshrink", activations.SOFTSHRINK),
    stateless("Hardshrink", activations.HARDSHRINK),
    stateless("Tanhshrink", activations.TANHSHRINK),
    stateless("Threshold", activations.THRESHOLD),
    stateless("Hardtanh", activations.HARDTANH),
    stateless("Hardsigmoid", activations.HARDSIGMOID),
    stateless("Hardswish", activations.HARDSWISH),
    _along_dim("Softmax", softmax.SOFTMAX),
    _along_dim("LogSoftmax", softmax.LOG_SOFTMAX),
    stateless("Flatten", views.FLATTEN, (integer("start_dim", 1), integer("end_dim", -1))),
    stateless(
        "Unflatten",
        views.UNFLATTEN,
        (integer("dim"), sizes("unflattened_size")),
        {"unflattened_size": "sizes"},
    ),
    IDENTITY,
)
