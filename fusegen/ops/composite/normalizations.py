"""Softmax and the normalisations.

All are computed in float32 for the 16-bit floats and rounded once, at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Attributes, Node
from fusegen.ir.integers import ONE, Integer, divide_exactly
from fusegen.ops import build
from fusegen.ops.composite.define import composite
from fusegen.ops.composite.reductions import degrees_of_freedom
from fusegen.ops.construct import call
from fusegen.ops.inference import Accepts, normal_dim, require, show
from fusegen.ops.operands import unpack
from fusegen.ops.parameters import (
    BIAS,
    DIM,
    DTYPE,
    INPUT,
    WEIGHT,
    dims,
    flag,
    floating,
    integer,
    optional_tensor,
    sizes,
)
from fusegen.ops.pointwise.casting import WIDEN
from fusegen.ops.record import OperationError

# The distance from 1 to the next number of the compute type: PyTorch's default eps of an RMS norm.
_EPSILON = {DType.FLOAT32: 2.0**-23, DType.FLOAT64: 2.0**-52}


def _shifted(operands: tuple[Node, ...], attributes: Attributes) -> tuple[Node, int, DType]:
    """The operand less its maximum along `dim`, as at least one-dimensional; `dim`; the result's
    dtype."""
    wanted = attributes["dtype"]
    x = build.cast(operands[0], wanted) if isinstance(wanted, DType) else operands[0]
    require(x.type, Accepts.FLOATS)
    dim = normal_dim(attributes.integer("dim"), x.type.rank)
    wide = build.to_compute(x)
    wide = wide if x.type.rank else build.reshape(wide, (1,))
    return build.sub(wide, build.amax(wide, (dim,), keepdim=True)), dim, x.dtype


def _softmax(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    shifted, dim, dtype = _shifted(operands, attributes)
    weights = build.exp(shifted)
    result = build.div(weights, build.total(weights, (dim,), keepdim=True))
    return build.as_result(build.reshape(result, operands[0].shape), dtype)


def _log_softmax(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    shifted, dim, dtype = _shifted(operands, attributes)
    result = build.sub(shifted, build.log(build.total(build.exp(shifted), (dim,), keepdim=True)))
    return build.as_result(build.reshape(result, operands[0].shape), dtype)


def _along_dim(node: Node, gradient: Node) -> tuple[Node, Node, int]:
    """The result and its gradient in the compute type, as at least one-dimensional, and `dim`."""
    dim = normal_dim(node.attributes.integer("dim"), node.type.rank)
    shape = node.shape or (1,)
    result, upstream = (build.reshape(build.to_compute(x), shape) for x in (node, gradient))
    return result, upstream, dim


def _softmax_gradient(node: Node, gradient: Node) -> tuple[Node]:
    result, upstream, dim = _along_dim(node, gradient)
    part = build.total(build.mul(upstream, result), (dim,), keepdim=True)
    return (build.reshape(build.mul(result, build.sub(upstream, part)), node.shape),)


def _log_softmax_gradient(node: Node, gradient: Node) -> tuple[Node]:
    result, upstream, dim = _along_dim(node, gradient)
    part = build.mul(build.exp(result), build.total(upstream, (dim,), keepdim=True))
    return (build.reshape(build.sub(upstream, part), node.shape),)


SOFTMAX = composite(
    "softmax",
    (INPUT, DIM, DTYPE),
    _softmax,
    "torch.softmax({input}, {dim}, dtype={dtype})",
    "Exponentials along `dim` scaled to sum to 1.",
    _softmax_gradient,
)
LOG_SOFTMAX = composite(
    "log_softmax",
    (INPUT, DIM, DTYPE),
    _log_softmax,
    "torch.log_softmax({input}, {dim}, dtype={dtype})",
    "The logarithm of softmax.",
    _log_softmax_gradient,
)


def _require_dtype(x: Node, **others: Node | None) -> None:
    """Raise `OperationError` unless `x` is floating-point and the others have its dtype."""
    require(x.type, Accepts.FLOATS)
    for name, other in others.items():
        if other is not None and other.dtype is not x.dtype:
            raise OperationError(
                f"{name} is {other.dtype.value}, but the input is {x.dtype.value}",
                f"convert one of them: to({name}, {x.dtype.value})",
            )


def _require_shape(wanted: Sequence[Integer], **tensors: Node | None) -> None:
    for name, value in tensors.items():
        if value is not None and value.shape != tuple(wanted):
            raise OperationError(
                f"{name} has shape {show(value.shape)}, and {show(wanted)} is needed"
            )


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


def _standardised(x: Node, over: Sequence[int], eps: float) -> Node:
    return call(STANDARDISE, (x,), dims=tuple(over), eps=eps)


def _affine(x: Node, weight: Node | None, bias: Node | None) -> Node:
    scaled = x if weight is None else build.mul(x, weight)
    return scaled if bias is None else build.add(scaled, bias)


def _affine_by_channel(x: Node, weight: Node | None, bias: Node | None) -> Node:
    return _affine(
        x,
        None if weight is None else build.per_channel(x, weight),
        None if bias is None else build.per_channel(x, bias),
    )


def _trailing_dims(x: Node, attributes: Attributes) -> tuple[int, ...]:
    """The dims that `normalized_shape` names: the last ones of `x`."""
    wanted = attributes.sizes("normalized_shape")
    if not wanted or x.shape[-len(wanted) :] != wanted:
        raise OperationError(
            f"normalized_shape {show(wanted)} is not the end of the input's shape {show(x.shape)}",
            f"the last dim has size {x.shape[-1]}" if x.shape else None,
        )
    return tuple(range(x.type.rank - len(wanted), x.type.rank))


def _layer_norm(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    x, weight, bias = unpack(operands, attributes, "input", "weight", "bias")
    assert x is not None
    _require_dtype(x, weight=weight, bias=bias)
    dims = _trailing_dims(x, attributes)
    _require_shape(x.shape[dims[0] :], weight=weight, bias=bias)
    normal = _standardised(build.to_compute(x), dims, attributes.number("eps"))
    return build.as_result(_affine(normal, weight, bias), x.dtype)


LAYER_NORM = composite(
    "layer_norm",
    (INPUT, sizes("normalized_shape"), WEIGHT, BIAS, floating("eps", 1e-5)),
    _layer_norm,
    "F.layer_norm({input}, {normalized_shape}, {weight}, {bias}, eps={eps})",
    "Mean 0 and variance 1 over the last dims, then scale and shift.",
)


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


def _rms_norm(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    x, weight = unpack(operands, attributes, "input", "weight")
    assert x is not None
    _require_dtype(x, weight=weight)
    dims = _trailing_dims(x, attributes)
    _require_shape(x.shape[dims[0] :], weight=weight)
    wide = build.to_compute(x)
    eps = _EPSILON[wide.dtype] if attributes["eps"] is None else attributes.number("eps")
    normal = call(RESCALE, (wide,), dims=dims, eps=eps)
    return build.as_result(_affine(normal, weight, None), x.dtype)


RMS_NORM = composite(
    "rms_norm",
    (INPUT, sizes("normalized_shape"), WEIGHT, floating("eps", None)),
    _rms_norm,
    "F.rms_norm({input}, {normalized_shape}, {weight}, eps={eps})",
    "Divided by the root mean square over the last dims, then scaled; without `eps`, the dtype's.",
)


def nearest_divisors(number: int, wanted: int) -> tuple[int, ...]:
    """The greatest divisor of `number` up to `wanted` and the least from it on."""
    divisors = [d for d in range(1, number + 1) if number % d == 0]
    below = [d for d in divisors if d <= wanted]
    above = [d for d in divisors if d >= wanted]
    return tuple(sorted({*below[-1:], *above[:1]}))


def group_size(channels: Integer, groups: int) -> Integer:
    """How many channels a group has; `OperationError` where they do not divide evenly."""
    size = divide_exactly(channels, Integer.of(groups)) if groups > 0 else None
    if size is None:
        near = nearest_divisors(channels.constant, groups) if channels.constant else ()
        verb = "s are" if len(near) > 1 else " is"
        raise OperationError(
            f"{channels} channels cannot be divided into {groups} groups",
            f"the nearest divisor{verb} {' and '.join(map(str, near))}" if near else None,
        )
    return size


def _group_norm(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    x, weight, bias = unpack(operands, attributes, "input", "weight", "bias")
    assert x is not None
    _require_dtype(x, weight=weight, bias=bias)
    if x.type.rank < 2:
        raise OperationError(
            f"group_norm needs an input of rank 2 or more, and got {x.type}",
            "dim 0 is the batch, dim 1 the channels",
        )
    batch, channels, *rest = x.shape
    groups = attributes.integer("num_groups")
    size = group_size(channels, groups)
    _require_shape((channels,), weight=weight, bias=bias)
    grouped = build.reshape(build.to_compute(x), (batch, groups, size, *rest))
    normal = _standardised(grouped, range(2, grouped.type.rank), attributes.number("eps"))
    result = _affine_by_channel(build.reshape(normal, x.shape), weight, bias)
    return build.as_result(result, x.dtype)


GROUP_NORM = composite(
    "group_norm",
    (INPUT, integer("num_groups"), WEIGHT, BIAS, floating("eps", 1e-5)),
    _group_norm,
    "F.group_norm({input}, {num_groups}, {weight}, {bias}, eps={eps})",
    "Mean 0 and variance 1 over each group of channels of a sample, then scale and shift.",
)


def _require_channels(name: str, x: Node) -> None:
    if x.type.rank < 2:
        raise OperationError(
            f"{name} needs an input of rank 2 or more, and got {x.type}",
            "dim 0 is the batch, dim 1 the channels",
        )


def _batch_norm(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    names = ("input", "running_mean", "running_var", "weight", "bias")
    x, mean, variance, weight, bias = unpack(operands, attributes, *names)
    assert x is not None
    _require_channels("batch_norm", x)
    _require_dtype(x, running_mean=mean, running_var=variance, weight=weight, bias=bias)
    vectors = {"running_mean": mean, "running_var": variance, "weight": weight, "bias": bias}
    _require_shape((x.shape[1],), **vectors)
    wide, eps = build.to_compute(x), attributes.number("eps")
    if attributes.flag("training"):
        if mean is not None or variance is not None:
            raise OperationError(
                "a function cannot update running_mean and running_var",
                "use a BatchNorm layer, or leave them out in training",
            )
        normal = _standardised(wide, _batch_dims(x), eps)
    elif mean is None or variance is None:
        raise OperationError(
            "batch_norm in evaluation needs running_mean and running_var",
            "pass both, or training=True",
        )
    else:
        deviation = build.rsqrt(build.add(build.to_compute(variance), eps))
        centred = build.sub(wide, build.per_channel(x, mean))
        normal = build.mul(centred, build.per_channel(x, deviation))
    return build.as_result(_affine_by_channel(normal, weight, bias), x.dtype)


def _batch_dims(x: Node) -> tuple[int, ...]:
    """All dims but the channels', over which batch statistics are taken."""
    dims = (0, *range(2, x.type.rank))
    if build.count(x.shape, dims) == ONE:
        raise OperationError(
            f"batch norm in training needs more than one value per channel, and got {show(x.shape)}"
        )
    return dims


def batch_statistics(x: Node) -> tuple[Node, Node]:
    """The mean and the unbiased variance of each channel of a batch, in the compute type: what
    PyTorch folds into a batch norm's running statistics."""
    dims, wide = _batch_dims(x), call(WIDEN, (x,))
    count = build.count(x.shape, dims)
    divisor = degrees_of_freedom(count, 1, wide.dtype)
    variance = build.div(build.squared_deviations(wide, dims), divisor)
    return build.centre(wide, dims), variance


BATCH_NORM = composite(
    "batch_norm",
    (
        INPUT,
        optional_tensor("running_mean"),
        optional_tensor("running_var"),
        WEIGHT,
        BIAS,
        flag("training"),
        floating("momentum", 0.1),
        floating("eps", 1e-5),
    ),
    _batch_norm,
    "F.batch_norm({input}, {running_mean}, {running_var}, {weight}, {bias}, "
    "training={training}, eps={eps})",
    "Standardised by each channel's running or batch statistics, then scale and shift.",
)


def _instance_norm(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    names = ("input", "running_mean", "running_var", "weight", "bias")
    x, mean, variance, weight, bias = unpack(operands, attributes, *names)
    assert x is not None
    if mean is not None or variance is not None or not attributes.flag("use_input_stats"):
        raise OperationError(
            "instance_norm by running statistics is not supported",
            "leave running_mean and running_var out, or use batch_norm",
        )
    _require_dtype(x, weight=weight, bias=bias)
    if x.type.rank < 3:
        raise OperationError(f"instance_norm needs an input of rank 3 or more, and got {x.type}")
    dims = tuple(range(2, x.type.rank))
    if build.count(x.shape, dims) == ONE:
        raise OperationError(
            f"instance_norm needs more than one value per channel, and got {show(x.shape)}"
        )
    _require_shape((x.shape[1],), weight=weight, bias=bias)
    normal = _standardised(build.to_compute(x), dims, attributes.number("eps"))
    return build.as_result(_affine_by_channel(normal, weight, bias), x.dtype)


INSTANCE_NORM = composite(
    "instance_norm",
    (
        INPUT,
        optional_tensor("running_mean"),
        optional_tensor("running_var"),
        WEIGHT,
        BIAS,
        flag("use_input_stats", True),
        floating("momentum", 0.1),
        floating("eps", 1e-5),
    ),
    _instance_norm,
    "F.instance_norm({input}, weight={weight}, bias={bias}, eps={eps})",
    "Mean 0 and variance 1 over each channel of a sample, then scale and shift.",
)

RECORDS = (
    SOFTMAX,
    LOG_SOFTMAX,
    LAYER_NORM,
    RMS_NORM,
    GROUP_NORM,
    BATCH_NORM,
    INSTANCE_NORM,
)
