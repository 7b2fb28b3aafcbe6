"""PyTorch's views and joins, written with the primitive ones."""

from __future__ import annotations

from functools import reduce

from fusegen.ir.dtypes import promote
from fusegen.ir.graph import Attributes, Node
from fusegen.ir.integers import ONE, Integer, is_never_negative, product
from fusegen.ops import build
from fusegen.ops.composite.define import composite
from fusegen.ops.inference import (
    complete_shape,
    dim_to_cut,
    normal_dim,
    normal_dims,
    show,
)
from fusegen.ops.parameters import DIM, INPUT, dims, integer, sizes
from fusegen.ops.record import OperationError, Parameter, ParameterKind


def _reshape(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    (x,) = operands
    return build.reshape(x, complete_shape(x.shape, attributes.sizes("shape")))


RESHAPE = composite(
    "reshape",
    (INPUT, sizes("shape")),
    _reshape,
    "torch.reshape({input}, {shape})",
    "The same elements, in row-major order, in another shape; one size may be -1.",
)


def _flatten(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    (x,) = operands
    if not x.type.rank:
        return build.reshape(x, (1,))
    start = normal_dim(attributes.integer("start_dim"), x.type.rank)
    end = normal_dim(attributes.integer("end_dim"), x.type.rank)
    if start > end:
        raise OperationError(f"start_dim {start} comes after end_dim {end}")
    joined = product(x.shape[start : end + 1])
    return build.reshape(x, (*x.shape[:start], joined, *x.shape[end + 1 :]))


FLATTEN = composite(
    "flatten",
    (INPUT, integer("start_dim", 0), integer("end_dim", -1)),
    _flatten,
    "torch.flatten({input}, {start_dim}, {end_dim})",
    "The dims from `start_dim` to `end_dim` joined into one.",
)


def _unflatten(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    (x,) = operands
    dim = normal_dim(attributes.integer("dim"), x.type.rank)
    parts = complete_shape(x.shape[dim : dim + 1], attributes.sizes("sizes"))
    return build.reshape(x, (*x.shape[:dim], *parts, *x.shape[dim + 1 :]))


UNFLATTEN = composite(
    "unflatten",
    (INPUT, DIM, sizes("sizes")),
    _unflatten,
    "torch.unflatten({input}, {dim}, {sizes})",
    "One dim split into several; one size may be -1.",
)


def _squeeze(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    (x,) = operands
    if attributes["dim"] == ():
        return x
    over = normal_dims(attributes["dim"], x.type.rank)
    unknown = next((x.shape[dim] for dim in over if x.shape[dim].constant is None), None)
    if unknown is not None:
        raise OperationError(
            f"squeeze cannot tell whether the size {unknown} is 1",
            "name dims of constant size, squeeze(x, dim=1), or use reshape",
        )
    return build.without_dims(x, tuple(dim for dim in over if x.shape[dim] == ONE))


SQUEEZE = composite(
    "squeeze",
    (INPUT, dims("dim", None)),
    _squeeze,
    "torch.squeeze({input}, dim={dim})",
    "Without the dims of size 1, or those of them named.",
)


def _unsqueeze(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    (x,) = operands
    dim = normal_dim(attributes.integer("dim"), x.type.rank + 1)
    return build.reshape(x, (*x.shape[:dim], 1, *x.shape[dim:]))


UNSQUEEZE = composite(
    "unsqueeze",
    (INPUT, DIM),
    _unsqueeze,
    "torch.unsqueeze({input}, {dim})",
    "With a new dim of size 1 at `dim`.",
)


def _transpose(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    (x,) = operands
    if not x.type.rank:
        return x
    first = normal_dim(attributes.integer("dim0"), x.type.rank)
    second = normal_dim(attributes.integer("dim1"), x.type.rank)
    order = list(range(x.type.rank))
    order[first], order[second] = second, first
    return build.permute(x, order)


TRANSPOSE = composite(
    "transpose",
    (INPUT, Parameter("dim0", ParameterKind.DIM), Parameter("dim1", ParameterKind.DIM)),
    _transpose,
    "torch.transpose({input}, {dim0}, {dim1})",
    "Two dims exchanged.",
)


def _permute(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    (x,) = operands
    given = attributes.integers("dims")
    order = [normal_dim(dim, x.type.rank) for dim in given] if x.type.rank else list(given)
    if sorted(order) != list(range(x.type.rank)):
        raise OperationError(
            f"dims {given} must name each of the {x.type.rank} dims of {x.type} once"
        )
    return build.permute(x, order)


PERMUTE = composite(
    "permute",
    (INPUT, dims("dims")),
    _permute,
    "torch.permute({input}, {dims})",
    "The dims in another order.",
)


def _expand(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    (x,) = operands
    wanted = attributes.sizes("size")
    added = len(wanted) - x.type.rank
    complete = tuple(
        x.shape[i - added] if i >= added and size == Integer.of(-1) else size
        for i, size in enumerate(wanted)
    )
    fits = added >= 0 and all(
        own in (ONE, size) for own, size in zip(x.shape, complete[added:], strict=True)
    )
    if not fits or Integer.of(-1) in complete:
        raise OperationError(
            f"{show(x.shape)} cannot be expanded to {show(wanted)}",
            "only dims of size 1 can grow, and new dims come first",
        )
    return build.expand(x, complete)


EXPAND = composite(
    "expand",
    (INPUT, sizes("size")),
    _expand,
    "{input:operand}.expand({size})",
    "Dims of size 1 repeated; -1 keeps a size.",
)


def _narrow(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    (x,) = operands
    dim = dim_to_cut("narrow", attributes.integer("dim"), x.type.rank)
    (start,), (length,) = attributes.sizes("start"), attributes.sizes("length")
    size = x.shape[dim]
    if start.constant is not None and start.constant < 0:
        start = start + size
    if not all(is_never_negative(v) for v in (start, length, size - start - length)):
        raise OperationError(
            f"{length} elements from {start} on do not surely lie inside dim {dim} of {x.type}"
        )
    return build.take(x, dim, start, start + length)


NARROW = composite(
    "narrow",
    (
        INPUT,
        DIM,
        Parameter("start", ParameterKind.SIZES),
        Parameter("length", ParameterKind.SIZES),
    ),
    _narrow,
    "torch.narrow({input}, {dim}, {start:only}, {length:only})",
    "`length` elements of one dim, from `start` on.",
)

TENSORS = Parameter("tensors", ParameterKind.TENSORS)


def _to_common_dtype(tensors: tuple[Node, ...]) -> list[Node]:
    if not tensors:
        raise OperationError("there is no tensor to join")
    dtype = reduce(promote, (x.dtype for x in tensors))
    return [build.cast(x, dtype) for x in tensors]


def _cat(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    tensors = _to_common_dtype(operands)
    rank = tensors[0].type.rank
    if not rank:
        raise OperationError("scalars cannot be joined", "use stack")
    return build.concatenate(tensors, normal_dim(attributes.integer("dim"), rank))


CAT = composite(
    "cat",
    (TENSORS, Parameter("dim", ParameterKind.DIM, 0)),
    _cat,
    "torch.cat({tensors}, {dim})",
    "Tensors joined along a dim; their other sizes are equal.",
)


def _stack(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    tensors = _to_common_dtype(operands)
    dim = normal_dim(attributes.integer("dim"), tensors[0].type.rank + 1)
    unequal = next((x for x in tensors if x.shape != tensors[0].shape), None)
    if unequal is not None:
        raise OperationError(
            f"stack needs equal shapes, and got {show(tensors[0].shape)} and {show(unequal.shape)}"
        )
    return build.concatenate(
        [build.reshape(x, (*x.shape[:dim], 1, *x.shape[dim:])) for x in tensors], dim
    )


STACK = composite(
    "stack",
    (TENSORS, Parameter("dim", ParameterKind.DIM, 0)),
    _stack,
    "torch.stack({tensors}, {dim})",
    "Tensors of one shape joined along a new dim.",
)

RECORDS = (
    RESHAPE,
    FLATTEN,
    UNFLATTEN,
    SQUEEZE,
    UNSQUEEZE,
    TRANSPOSE,
    PERMUTE,
    EXPAND,
    NARROW,
    CAT,
    STACK,
)
