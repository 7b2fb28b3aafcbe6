"""The views the planner knows, and concatenation."""

from __future__ import annotations

from fusegen.ir.graph import Attributes, Node, Shape, TensorType
from fusegen.ir.integers import ONE, ZERO, Integer
from fusegen.ops import build
from fusegen.ops.inference import complete_shape, show
from fusegen.ops.parameters import DIM, INPUT, dims, integer, sizes
from fusegen.ops.record import (
    Concatenation,
    OperationError,
    Parameter,
    ParameterKind,
    Product,
    Reshape,
    View,
)

Coordinates = tuple[Integer, ...]


def _size(attributes: Attributes, name: str) -> Integer:
    (size,) = attributes.sizes(name)
    return size


def _infer_permute(types: tuple[TensorType, ...], attributes: Attributes) -> TensorType:
    shape = types[0].shape
    return TensorType(tuple(shape[dim] for dim in attributes.integers("dims")), types[0].dtype)


def _permute_source(attributes: Attributes, _: Shape, at: Coordinates) -> Coordinates:
    place = dict(zip(attributes.integers("dims"), at, strict=True))
    return tuple(place[dim] for dim in range(len(at)))


def _permute_gradient(node: Node, gradient: Node) -> tuple[Node]:
    """The dims back in their order. Where the rows of a product come to be innermost, its transpose
    is computed instead, so that neighbours of the result are neighbours of the product."""
    order = node.attributes.integers("dims")
    back = tuple(order.index(dim) for dim in range(len(order)))
    if back and back[-1] == len(back) - 2:
        transpose = _transposed_product(gradient)
        if transpose is not None:
            gradient = transpose
            exchanged = (*range(len(back) - 2), len(back) - 1, len(back) - 2)
            back = tuple(exchanged[dim] for dim in back)
    return (build.permute(gradient, back),)


def _transposed_product(value: Node) -> Node | None:
    """The transpose of a product, whose batches may stand in several dims, as the product of its
    transposed factors; None where `value` is no product."""
    product = value
    if isinstance(value.operation, Reshape) and value.shape[-2:] == value.operands[0].shape[-2:]:
        (product,) = value.operands
    if not isinstance(product.operation, Product):
        return None
    left, right = product.operands
    transpose = build.matrix_product(build.transpose(right), build.transpose(left))
    return build.reshape(transpose, (*value.shape[:-2], *transpose.shape[-2:]))


PERMUTE = View(
    "permute",
    parameters=(INPUT, dims("dims")),
    infer=_infer_permute,
    twin="{input:operand}.permute({dims})",
    summary="The dims in another order.",
    source=_permute_source,
    gradient=_permute_gradient,
)


def _infer_expand(types: tuple[TensorType, ...], attributes: Attributes) -> TensorType:
    return TensorType(attributes.sizes("shape"), types[0].dtype)


def _expand_source(_: Attributes, operand: Shape, at: Coordinates) -> Coordinates:
    own = at[len(at) - len(operand) :]
    return tuple(ZERO if size == ONE else i for size, i in zip(operand, own, strict=True))


def _expand_gradient(node: Node, gradient: Node) -> tuple[Node]:
    return (build.sum_to(gradient, node.operands[0].type),)


EXPAND = View(
    "expand",
    parameters=(INPUT, sizes("shape")),
    infer=_infer_expand,
    twin="{input:operand}.expand({shape})",
    summary="Dims of size 1 repeated to a complete shape.",
    source=_expand_source,
    gradient=_expand_gradient,
)


def _infer_slice(types: tuple[TensorType, ...], attributes: Attributes) -> TensorType:
    shape, dim = types[0].shape, attributes.integer("dim")
    step = attributes.integer("step")
    length = (_size(attributes, "stop") - _size(attributes, "start") + step - 1) // step
    return TensorType((*shape[:dim], length, *shape[dim + 1 :]), types[0].dtype)


def _slice_source(attributes: Attributes, _: Shape, at: Coordinates) -> Coordinates:
    dim = attributes.integer("dim")
    inner = _size(attributes, "start") + attributes.integer("step") * at[dim]
    return (*at[:dim], inner, *at[dim + 1 :])


def _slice_gradient(node: Node, gradient: Node) -> tuple[Node]:
    """Zeros around the slice, and behind each of its elements where it has a step: with all of them
    it may reach beyond the dim, and is cut. Without the last ones it would have a length below 0
    where the slice is empty."""
    (x,) = node.operands
    dim, step = node.attributes.integer("dim"), node.attributes.integer("step")
    start, stop = _size(node.attributes, "start"), _size(node.attributes, "stop")
    before, size, after = x.shape[:dim], x.shape[dim], x.shape[dim + 1 :]
    if node.shape[dim] == ZERO:
        return (build.zeros(x.shape, gradient.dtype),)

    def zeros(length: Integer) -> list[Node]:
        shape = (*before, length, *after)
        return [] if length == ZERO else [build.zeros(shape, gradient.dtype)]

    spread = gradient
    if step > 1:
        length = node.shape[dim]
        gaps = build.zeros((*before, length, step - 1, *after), gradient.dtype)
        single = build.reshape(gradient, (*before, length, ONE, *after))
        wide = build.concatenate([single, gaps], dim + 1)
        spread = build.reshape(wide, (*before, length * step, *after))
    padded = build.concatenate([*zeros(start), spread, *zeros(size - stop)], dim)
    return (build.take(padded, dim, 0, size),)


SLICE = View(
    "slice",
    parameters=(
        INPUT,
        DIM,
        Parameter("start", ParameterKind.SIZES),
        Parameter("stop", ParameterKind.SIZES),
        integer("step", 1),
    ),
    infer=_infer_slice,
    twin="torch.ops.aten.slice({input}, {dim}, {start}, {stop}, {step})",
    summary="Every `step`th element of one dim from `start` to below `stop`, both inside it.",
    source=_slice_source,
    gradient=_slice_gradient,
)


def _infer_reshape(types: tuple[TensorType, ...], attributes: Attributes) -> TensorType:
    shape = complete_shape(types[0].shape, attributes.sizes("shape"))
    return TensorType(shape, types[0].dtype)


def _reshape_gradient(node: Node, gradient: Node) -> tuple[Node]:
    return (build.reshape(gradient, node.operands[0].shape),)


RESHAPE = Reshape(
    "reshape",
    parameters=(INPUT, sizes("shape")),
    infer=_infer_reshape,
    twin="{input:operand}.reshape({shape})",
    summary="The same elements, in row-major order, in another complete shape.",
    gradient=_reshape_gradient,
)


def _infer_concatenation(types: tuple[TensorType, ...], attributes: Attributes) -> TensorType:
    dim = attributes.integer("dim")
    first = types[0]
    for other in types[1:]:
        same = other.rank == first.rank and all(
            i == dim or a == b
            for i, (a, b) in enumerate(zip(first.shape, other.shape, strict=True))
        )
        if not same:
            raise OperationError(
                f"shapes {show(first.shape)} and {show(other.shape)} cannot be joined along "
                f"dim {dim}",
                "all other sizes must be equal",
            )
    total = sum((t.shape[dim] for t in types), ZERO)
    return TensorType((*first.shape[:dim], total, *first.shape[dim + 1 :]), first.dtype)


def _concatenation_gradient(node: Node, gradient: Node) -> tuple[Node, ...]:
    dim = node.attributes.integer("dim")
    start = ZERO
    parts = []
    for operand in node.operands:
        end = start + operand.shape[dim]
        parts.append(build.take(gradient, dim, start, end))
        start = end
    return tuple(parts)


CONCATENATION = Concatenation(
    "cat",
    parameters=(Parameter("tensors", ParameterKind.TENSORS), DIM),
    infer=_infer_concatenation,
    twin="torch.cat({tensors}, {dim})",
    summary="Tensors of one dtype joined along a dim.",
    gradient=_concatenation_gradient,
)

RECORDS = (PERMUTE, EXPAND, SLICE, RESHAPE, CONCATENATION)
