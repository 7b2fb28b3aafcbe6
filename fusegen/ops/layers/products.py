"""Layers with weights: linear and convolutions; and the poolings."""

from __future__ import annotations

from fusegen.ir.graph import Attributes, Node
from fusegen.ir.integers import Integer
from fusegen.ops.composite import library
from fusegen.ops.composite.library import for_each_dim
from fusegen.ops.composite.normalizations import group_size
from fusegen.ops.composite.products import LINEAR
from fusegen.ops.construct import call
from fusegen.ops.layers.activations import no_tensors
from fusegen.ops.parameters import flag, integer, integers, text
from fusegen.ops.record import Layer, LayerTensor, OperationError, Parameter


def _positive(attributes: Attributes, name: str) -> int:
    value = attributes.integer(name)
    if value < 1:
        raise OperationError(f"{name} is {value}, and must be 1 or more")
    return value


def _weight_and_bias(
    weight: tuple[int, ...], outputs: int, attributes: Attributes
) -> tuple[LayerTensor, ...]:
    tensors = (LayerTensor("weight", weight), LayerTensor("bias", (outputs,)))
    return tensors if attributes.flag("bias") else tensors[:1]


def _linear_tensors(attributes: Attributes) -> tuple[LayerTensor, ...]:
    inputs, outputs = _positive(attributes, "in_features"), _positive(attributes, "out_features")
    return _weight_and_bias((outputs, inputs), outputs, attributes)


def _linear(
    inputs: tuple[Node, ...], tensors: dict[str, Node], attributes: Attributes, training: bool
) -> Node:
    return call(LINEAR, (*inputs, tensors["weight"], tensors.get("bias")))


LINEAR_LAYER = Layer(
    "Linear",
    (integer("in_features"), integer("out_features"), flag("bias", True)),
    tensors=_linear_tensors,
    apply=_linear,
    summary="`input @ weight.T + bias`, over the last dim.",
)


def _divided(attributes: Attributes, name: str) -> int:
    """A number of channels per group."""
    channels = _positive(attributes, name)
    return group_size(Integer.of(channels), attributes.integer("groups")).constant or 0


def _convolution(rank: int, transposed: bool) -> Layer:
    record = (library.TRANSPOSED_CONVOLUTIONS if transposed else library.CONVOLUTIONS)[rank]

    def tensors(attributes: Attributes) -> tuple[LayerTensor, ...]:
        kernel = for_each_dim(attributes, "kernel_size", rank)
        inputs, outputs = attributes.integer("in_channels"), attributes.integer("out_channels")
        inputs_each, outputs_each = (
            _divided(attributes, "in_channels"),
            _divided(attributes, "out_channels"),
        )
        channels = (inputs, outputs_each) if transposed else (outputs, inputs_each)
        return _weight_and_bias((*channels, *kernel), outputs, attributes)

    def apply(
        inputs: tuple[Node, ...], held: dict[str, Node], attributes: Attributes, training: bool
    ) -> Node:
        known = {parameter.name for parameter in record.parameters} - {"bias"}
        arguments = {name: value for name, value in attributes.items() if name in known}
        return call(record, (*inputs, held["weight"], held.get("bias")), **arguments)

    channels = (integer("in_channels"), integer("out_channels"), integers("kernel_size"))
    zeros = text("padding_mode", "zeros", ("zeros",))
    parameters: tuple[Parameter, ...]
    if transposed:
        parameters = (
            *channels,
            integers("stride", 1),
            integers("padding", 0),
            integers("output_padding", 0),
            integer("groups", 1),
            flag("bias", True),
            integers("dilation", 1),
            zeros,
        )
    else:
        parameters = (
            *channels,
            integers("stride", 1),
            integers("padding", 0, ("same", "valid")),
            integers("dilation", 1),
            integer("groups", 1),
            flag("bias", True),
            zeros,
        )
    name = f"Conv{'Transpose' if transposed else ''}{rank}d"
    return Layer(name, parameters, tensors=tensors, apply=apply, summary=record.summary)


def _pooling(rank: int, kind: str) -> Layer:
    record = (library.MAX_POOLS if kind == "Max" else library.AVG_POOLS)[rank]

    def apply(
        inputs: tuple[Node, ...], _: dict[str, Node], attributes: Attributes, training: bool
    ) -> Node:
        if attributes.get("return_indices"):
            raise OperationError("return_indices is not supported")
        arguments = {k: v for k, v in attributes.items() if k != "return_indices"}
        return call(record, inputs, **arguments)

    parameters = list(record.parameters[1:])
    if kind == "Max":
        parameters.insert(len(parameters) - 1, flag("return_indices"))
    return Layer(
        f"{kind}Pool{rank}d",
        tuple(parameters),
        tensors=no_tensors,
        apply=apply,
        summary=record.summary,
    )


LAYERS = (
    LINEAR_LAYER,
    *(_convolution(rank, transposed) for transposed in (False, True) for rank in (1, 2, 3)),
    *(_pooling(rank, kind) for kind in ("Max", "Avg") for rank in (1, 2, 3)),
)
