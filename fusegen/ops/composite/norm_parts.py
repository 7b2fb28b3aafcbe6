"""What normalisations are made of: moments taken off and divided by, then a scale and a shift."""

from __future__ import annotations

from collections.abc import Sequence

from fusegen.ir.graph import Attributes, Node
from fusegen.ir.integers import Integer
from fusegen.ops import build
from fusegen.ops.composite.define import composite
from fusegen.ops.construct import call
from fusegen.ops.inference import Accepts, require, show
from fusegen.ops.parameters import (
    INPUT,
    dims,
    floating,
)
from fusegen.ops.record import OperationError


def _moments(x: Node, dims: Sequence[int], eps: float) -> tuple[Node, Node]:
    """The mean over `dims` and `1 / sqrt(variance + eps)`, with the biased variance."""
    mean = build.centre(x, dims, keepdim=True)
    deviations = build.squared_deviations(x, dims, keepdim=True)
    variance = build.div(deviations, build.count(x.shape, dims))
    return mean, build.rsqrt(build.add(variance, eps))


def _standardise(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    (x,) = operands
    mean, scale = _moments(x, attributes.integers("dims"), attributes.number("eps"))
    return build.mul(build.sub(x, mean), scale)


def _standardise_gradient(node: Node, gradient: Node) -> tuple[Node]:
    """`scale * (gradient - mean(gradient) - result * mean(gradient * result))`: one sweep over the
    operand and the gradient, from the statistics."""
    (x,) = node.operands
    dims = node.attributes.integers("dims")
    _, scale = _moments(x, dims, node.attributes.number("eps"))
    flat = build.total(gradient, dims, keepdim=True)
    along = build.total(build.mul(gradient, node), dims, keepdim=True)
    count = build.count(x.shape, dims)
    shift = build.div(flat, count)
    tilt = build.mul(node, build.div(along, count))
    return (build.mul(scale, build.sub(build.sub(gradient, shift), tilt)),)


# What all norms that take off a mean are made of; it has no name in the language.
STANDARDISE = composite(
    "standardise",
    (INPUT, dims("dims"), floating("eps")),
    _standardise,
    "({input} - torch.mean({input}, {dims}, keepdim=True)) "
    "* torch.rsqrt(torch.var({input}, {dims}, unbiased=False, keepdim=True) + {eps})",
    "Less the mean over `dims`, times `1 / sqrt(variance + eps)` with the biased variance.",
    _standardise_gradient,
)


def standardised(x: Node, over: Sequence[int], eps: float) -> Node:
    """`x` with mean 0 and variance 1 over these dims, but for `eps`."""
    return call(STANDARDISE, (x,), dims=tuple(over), eps=eps)


def _rms_scale(x: Node, attributes: Attributes) -> Node:
    """`1 / sqrt(mean(x * x) + eps)`."""
    mean_square = build.mean(build.square(x), attributes.integers("dims"), keepdim=True)
    return build.rsqrt(build.add(mean_square, attributes.number("eps")))


def _rescale(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    (x,) = operands
    return build.mul(x, _rms_scale(x, attributes))


def _rescale_gradient(node: Node, gradient: Node) -> tuple[Node]:
    """`scale * (gradient - result * mean(gradient * result))`. By way of the mean of squares it has
    the scale's cube, which is 0 in float32 for operands from 1e15 on."""
    (x,) = node.operands
    dims = node.attributes.integers("dims")
    along = build.total(build.mul(gradient, node), dims, keepdim=True)
    tilt = build.mul(node, build.div(along, build.count(x.shape, dims)))
    return (build.mul(_rms_scale(x, node.attributes), build.sub(gradient, tilt)),)


# What an RMS norm is made of; it has no name in the language.
RESCALE = composite(
    "rescale",
    (INPUT, dims("dims"), floating("eps")),
    _rescale,
    "{input} * torch.rsqrt(torch.mean({input} * {input}, {dims}, keepdim=True) + {eps})",
    "Times `1 / sqrt(mean_square + eps)`, with the mean of the squares over `dims`.",
    _rescale_gradient,
)


def require_dtype(x: Node, **others: Node | None) -> None:
    """Raise `OperationError` unless `x` is floating-point and the others have its dtype."""
    require(x.type, Accepts.FLOATS)
    for name, other in others.items():
        if other is not None and other.dtype is not x.dtype:
            raise OperationError(
                f"{name} is {other.dtype.value}, but the input is {x.dtype.value}",
                f"convert one of them: to({name}, {x.dtype.value})",
            )


def require_shape(wanted: Sequence[Integer], **tensors: Node | None) -> None:
    """Raise `OperationError` unless the tensors have the shape that is wanted."""
    for name, value in tensors.items():
        if value is not None and value.shape != tuple(wanted):
            raise OperationError(
                f"{name} has shape {show(value.shape)}, and {show(wanted)} is needed"
            )


def affine(x: Node, weight: Node | None, bias: Node | None) -> Node:
    """`x * weight + bias`, of those that are given."""
    scaled = x if weight is None else build.mul(x, weight)
    return scaled if bias is None else build.add(scaled, bias)


def affine_by_channel(x: Node, weight: Node | None, bias: Node | None) -> Node:
    """The same with a number for each channel, which are dim 1 of `x`."""
    return affine(
        x,
        None if weight is None else build.per_channel(x, weight),
        None if bias is None else build.per_channel(x, bias),
    )
