"""Normalisations: over the last dims, over groups of channels, over a batch.

All are computed in float32 for the 16-bit floats and rounded once, at the end.
"""

from __future__ import annotations

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Attributes, Node
from fusegen.ir.integers import ONE, Integer, divide_exactly
from fusegen.ops import build
from fusegen.ops.composite.define import composite
from fusegen.ops.composite.norm_parts import (
    RESCALE,
    affine,
    affine_by_channel,
    require_dtype,
    require_shape,
    standardised,
)
from fusegen.ops.composite.reductions import degrees_of_freedom
from fusegen.ops.construct import call
from fusegen.ops.inference import show
from fusegen.ops.operands import unpack
from fusegen.ops.parameters import (
    BIAS,
    INPUT,
    WEIGHT,
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
    require_dtype(x, weight=weight, bias=bias)
    dims = _trailing_dims(x, attributes)
    require_shape(x.shape[dims[0] :], weight=weight, bias=bias)
    normal = standardised(build.to_compute(x), dims, attributes.number("eps"))
    return build.as_result(affine(normal, weight, bias), x.dtype)


LAYER_NORM = composite(
    "layer_norm",
    (INPUT, sizes("normalized_shape"), WEIGHT, BIAS, floating("eps", 1e-5)),
    _layer_norm,
    "F.layer_norm({input}, {normalized_shape}, {weight}, {bias}, eps={eps})",
    "Mean 0 and variance 1 over the last dims, then scale and shift.",
)


def _rms_norm(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    x, weight = unpack(operands, attributes, "input", "weight")
    assert x is not None
    require_dtype(x, weight=weight)
    dims = _trailing_dims(x, attributes)
    require_shape(x.shape[dims[0] :], weight=weight)
    wide = build.to_compute(x)
    eps = _EPSILON[wide.dtype] if attributes["eps"] is None else attributes.number("eps")
    normal = call(RESCALE, (wide,), dims=dims, eps=eps)
    return build.as_result(affine(normal, weight, None), x.dtype)


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
    require_dtype(x, weight=weight, bias=bias)
    if x.type.rank < 2:
        raise OperationError(
            f"group_norm needs an input of rank 2 or more, and got {x.type}",
            "dim 0 is the batch, dim 1 the channels",
        )
    batch, channels, *rest = x.shape
    groups = attributes.integer("num_groups")
    size = group_size(channels, groups)
    require_shape((channels,), weight=weight, bias=bias)
    grouped = build.reshape(build.to_compute(x), (batch, groups, size, *rest))
    normal = standardised(grouped, range(2, grouped.type.rank), attributes.number("eps"))
    result = affine_by_channel(build.reshape(normal, x.shape), weight, bias)
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
    require_dtype(x, running_mean=mean, running_var=variance, weight=weight, bias=bias)
    vectors = {"running_mean": mean, "running_var": variance, "weight": weight, "bias": bias}
    require_shape((x.shape[1],), **vectors)
    wide, eps = build.to_compute(x), attributes.number("eps")
    if attributes.flag("training"):
        if mean is not None or variance is not None:
            raise OperationError(
                "a function cannot update running_mean and running_var",
                "use a BatchNorm layer, or leave them out in training",
            )
        normal = standardised(wide, _batch_dims(x), eps)
    elif mean is None or variance is None:
        raise OperationError(
            "batch_norm in evaluation needs running_mean and running_var",
            "pass both, or training=True",
        )
    else:
        deviation = build.rsqrt(build.add(build.to_compute(variance), eps))
        centred = build.sub(wide, build.per_channel(x, mean))
        normal = build.mul(centred, build.per_channel(x, deviation))
    return build.as_result(affine_by_channel(normal, weight, bias), x.dtype)


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
    require_dtype(x, weight=weight, bias=bias)
    if x.type.rank < 3:
        raise OperationError(f"instance_norm needs an input of rank 3 or more, and got {x.type}")
    dims = tuple(range(2, x.type.rank))
    if build.count(x.shape, dims) == ONE:
        raise OperationError(
            f"instance_norm needs more than one value per channel, and got {show(x.shape)}"
        )
    require_shape((x.shape[1],), weight=weight, bias=bias)
    normal = standardised(build.to_compute(x), dims, attributes.number("eps"))
    return build.as_result(affine_by_channel(normal, weight, bias), x.dtype)


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
    LAYER_NORM,
    RMS_NORM,
    GROUP_NORM,
    BATCH_NORM,
    INSTANCE_NORM,
)
