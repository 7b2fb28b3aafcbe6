"""Operations left to PyTorch's own kernels: convolution and pooling.

Each has its operator's arguments in its order, all tuples complete. The gradients are library calls
of their own, one for each operand, so that one that nobody wants is not computed.
"""

from __future__ import annotations

from collections.abc import Callable

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Attributes, Node, TensorType
from fusegen.ir.integers import Integer, is_never_negative
from fusegen.ops import build
from fusegen.ops.inference import Accepts, require, show
from fusegen.ops.parameters import BIAS, INPUT, flag, integer, integers, tensor
from fusegen.ops.record import (
    Gradient,
    Inference,
    LibraryCall,
    OperationError,
    Parameter,
    ParameterKind,
)


def _require_positive(size: Integer, input: TensorType) -> Integer:
    if size.constant is not None and size.constant < 1:
        raise OperationError(
            f"the window is larger than the padded input {show(input.shape)}",
            "use a smaller kernel or more padding",
        )
    return size


def _infer_convolution(types: tuple[TensorType, ...], attributes: Attributes) -> TensorType:
    """Output sizes by the formulas in the documentation of torch.nn.Conv2d and ConvTranspose2d."""
    input, weight = types[:2]
    require(input, Accepts.NUMBERS)
    if weight.dtype is not input.dtype:
        raise OperationError(
            f"weight is {weight.dtype.value}, but the input is {input.dtype.value}"
        )
    stride, padding = attributes.integers("stride"), attributes.integers("padding")
    dilation, extra = attributes.integers("dilation"), attributes.integers("output_padding")
    groups, transposed = attributes.integer("groups"), attributes.flag("transposed")
    expected = weight.shape[0] if transposed else weight.shape[1] * groups
    if input.shape[1] != expected:
        raise OperationError(
            f"the input {show(input.shape)} has {input.shape[1]} channels, and a weight "
            f"{show(weight.shape)} in {groups} groups takes {expected}"
        )
    spatial = []
    for i, (size, kernel) in enumerate(zip(input.shape[2:], weight.shape[2:], strict=True)):
        window = dilation[i] * (kernel - 1)
        if transposed:
            result = (size - 1) * stride[i] - 2 * padding[i] + window + extra[i] + 1
        else:
            result = (size + 2 * padding[i] - window - 1 + stride[i]) // stride[i]
        spatial.append(_require_positive(result, input))
    channels = weight.shape[1] * groups if transposed else weight.shape[0]
    return TensorType((input.shape[0], channels, *spatial), input.dtype)


_WINDOWS = (
    integers("stride"),
    integers("padding"),
    integers("dilation"),
    flag("transposed"),
    integers("output_padding"),
    integer("groups"),
)


def _infer_like(operand: int) -> Inference:
    def infer(types: tuple[TensorType, ...], _: Attributes) -> TensorType:
        return types[operand]

    return infer


def _convolution_part(name: str, position: int) -> LibraryCall:
    """The gradient of a convolution's operand: one of the three results of PyTorch's backward."""
    return LibraryCall(
        f"convolution_{name}_gradient",
        parameters=(
            tensor("grad_output"),
            INPUT,
            tensor("weight"),
            integers("bias_sizes", None),
            *_WINDOWS,
            Parameter("output_mask", ParameterKind.FLAGS),
        ),
        infer=_infer_like(1 + position),
        twin="torch.ops.aten.convolution_backward({grad_output}, {input}, {weight}, {bias_sizes}, "
        "{stride}, {padding}, {dilation}, {transposed}, {output_padding}, {groups}, "
        f"{{output_mask}})[{position}]",
        summary=f"The gradient of a convolution's {name}.",
        aten="aten::convolution_backward",
        results=3,
        result=position,
    )


CONVOLUTION_GRADIENTS = tuple(map(_convolution_part, ("input", "weight"), (0, 1)))


def _convolution_gradient(node: Node, gradient: Node) -> tuple[Node, ...]:
    x, weight, *bias = node.operands
    windows = {name: node.attributes[name] for name in (p.name for p in _WINDOWS)}
    parts = [
        build.call(
            record,
            (gradient, x, weight),
            output_mask=tuple(i == record.result for i in range(record.results)),
            **windows,
        )
        for record in CONVOLUTION_GRADIENTS
    ]
    channels = (0, *range(2, node.type.rank))
    parts += [build.total(build.to_compute(gradient), channels) for _ in bias]
    return tuple(parts)


CONVOLUTION = LibraryCall(
    "convolution",
    parameters=(INPUT, tensor("weight"), BIAS, *_WINDOWS),
    infer=_infer_convolution,
    twin="torch.ops.aten.convolution({input}, {weight}, {bias}, {stride}, {padding}, {dilation}, "
    "{transposed}, {output_padding}, {groups})",
    summary="A convolution or a transposed one, over any number of spatial dims.",
    aten="aten::convolution",
    gradient=_convolution_gradient,
)


def pooled_size(
    size: Integer, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool
) -> Integer:
    """How many windows a pooling takes of a dim.

    In ceil mode a last, partial window counts, but only if it starts inside the input or its left
    padding (documentation of torch.nn.MaxPool1d).
    """
    reach = size + 2 * padding - dilation * (kernel - 1) - 1
    if not ceil_mode:
        return (reach + stride) // stride
    if size.constant is None:
        raise OperationError(
            f"ceil_mode needs a constant size, and {size} is symbolic",
            "make the size an argument of the model",
        )
    count = (reach + stride - 1) // stride + 1
    starts_inside = is_never_negative(size + padding - 1 - (count - 1) * stride)
    return count if starts_inside else count - 1


def _pooling(dilated: bool) -> Inference:
    def infer(types: tuple[TensorType, ...], attributes: Attributes) -> TensorType:
        (input,) = types
        require(input, Accepts.FLOATS)
        kernel, stride = attributes.integers("kernel_size"), attributes.integers("stride")
        padding, ceil_mode = attributes.integers("padding"), attributes.flag("ceil_mode")
        dilation = attributes.integers("dilation") if dilated else (1,) * len(kernel)
        for pad, width, apart in zip(padding, kernel, dilation, strict=True):
            if 2 * pad > apart * (width - 1) + 1:
                raise OperationError(
                    f"padding {pad} is more than half of the kernel's width",
                    f"it can be at most {(apart * (width - 1) + 1) // 2}",
                )
        spatial = [
            _require_positive(pooled_size(*sizes, ceil_mode), input)
            for sizes in zip(input.shape[2:], kernel, stride, padding, dilation, strict=True)
        ]
        return TensorType((*input.shape[:2], *spatial), input.dtype)

    return infer


_MAX_WINDOWS = (
    integers("kernel_size"),
    integers("stride"),
    integers("padding"),
    integers("dilation"),
    flag("ceil_mode"),
)
_MEAN_WINDOWS = (
    integers("kernel_size"),
    integers("stride"),
    integers("padding"),
    flag("ceil_mode"),
    flag("count_include_pad", True),
)
_DIVISOR = integer("divisor_override", None)


def _texts(parameters: tuple[Parameter, ...]) -> str:
    return ", ".join(f"{{{parameter.name}}}" for parameter in parameters)


def _infer_indices(types: tuple[TensorType, ...], attributes: Attributes) -> TensorType:
    return TensorType(_pooling(dilated=True)(types, attributes).shape, DType.INT64)


def _max_pool_indices(rank: int) -> LibraryCall:
    return LibraryCall(
        f"max_pool{rank}d_indices",
        parameters=(INPUT, *_MAX_WINDOWS),
        infer=_infer_indices,
        twin=f"torch.ops.aten.max_pool{rank}d_with_indices({{input}}, {_texts(_MAX_WINDOWS)})[1]",
        summary="Where the greatest element of each window stands.",
        aten=f"aten::max_pool{rank}d_with_indices",
        results=2,
        result=1,
    )


def _max_pool_part(rank: int) -> LibraryCall:
    return LibraryCall(
        f"max_pool{rank}d_gradient",
        parameters=(tensor("grad_output"), INPUT, *_MAX_WINDOWS, tensor("indices")),
        infer=_infer_like(1),
        twin=f"torch.ops.aten.max_pool{rank}d_with_indices_backward({{grad_output}}, {{input}}, "
        f"{_texts(_MAX_WINDOWS)}, {{indices}})",
        summary="The gradient of a max pool: to the greatest element of each window.",
        aten=f"aten::max_pool{rank}d_with_indices_backward",
    )


def _avg_pool_part(rank: int) -> LibraryCall:
    windows = (*_MEAN_WINDOWS, _DIVISOR)
    return LibraryCall(
        f"avg_pool{rank}d_gradient",
        parameters=(tensor("grad_output"), INPUT, *windows),
        infer=_infer_like(1),
        twin=f"torch.ops.aten.avg_pool{rank}d_backward({{grad_output}}, {{input}}, "
        f"{_texts(windows)})",
        summary="The gradient of an average pool: evenly to the elements of each window.",
        aten=f"aten::avg_pool{rank}d_backward",
    )


MAX_POOL_INDICES = {rank: _max_pool_indices(rank) for rank in (2, 3)}
MAX_POOL_GRADIENTS = {rank: _max_pool_part(rank) for rank in (2, 3)}
AVG_POOL_GRADIENTS = {rank: _avg_pool_part(rank) for rank in (2, 3)}


def _pool_gradient(rank: int, part: Callable[[int, Node, Node, Attributes], Node]) -> Gradient:
    """A pool of one dim has that of two, the first of which has size 1."""

    def gradient_of(node: Node, gradient: Node) -> tuple[Node]:
        (x,) = node.operands
        if rank > 1:
            return (part(rank, x, gradient, node.attributes),)
        flat = {"kernel_size": 1, "stride": 1, "padding": 0, "dilation": 1}
        windows = Attributes(
            tuple(
                (name, (flat[name], *node.attributes.integers(name)) if name in flat else value)
                for name, value in node.attributes.items_
            )
        )
        wide, upstream = (build.reshape(v, (*v.shape[:2], 1, v.shape[2])) for v in (x, gradient))
        return (build.reshape(part(2, wide, upstream, windows), x.shape),)

    return gradient_of


def _max_pool_gradient(rank: int, x: Node, gradient: Node, windows: Attributes) -> Node:
    indices = build.call(MAX_POOL_INDICES[rank], (x,), **windows)
    return build.call(MAX_POOL_GRADIENTS[rank], (gradient, x, indices), **windows)


def _avg_pool_gradient(rank: int, x: Node, gradient: Node, windows: Attributes) -> Node:
    return build.call(AVG_POOL_GRADIENTS[rank], (gradient, x), **windows)


def _max_pool(rank: int) -> LibraryCall:
    return LibraryCall(
        f"max_pool{rank}d",
        parameters=(INPUT, *_MAX_WINDOWS),
        infer=_pooling(dilated=True),
        twin=f"torch.ops.aten.max_pool{rank}d({{input}}, {_texts(_MAX_WINDOWS)})",
        summary="The greatest element of each window.",
        aten=f"aten::max_pool{rank}d",
        gradient=_pool_gradient(rank, _max_pool_gradient),
    )


def _avg_pool(rank: int) -> LibraryCall:
    divisor: tuple[Parameter, ...] = (_DIVISOR,) if rank > 1 else ()
    return LibraryCall(
        f"avg_pool{rank}d",
        parameters=(INPUT, *_MEAN_WINDOWS, *divisor),
        infer=_pooling(dilated=False),
        twin=f"torch.ops.aten.avg_pool{rank}d({{input}}, {_texts((*_MEAN_WINDOWS, *divisor))})",
        summary="The mean of each window.",
        aten=f"aten::avg_pool{rank}d",
        gradient=_pool_gradient(rank, _avg_pool_gradient),
    )


MAX_POOLS = {rank: _max_pool(rank) for rank in (1, 2, 3)}
AVG_POOLS = {rank: _avg_pool(rank) for rank in (1, 2, 3)}

RECORDS = (CONVOLUTION, *MAX_POOLS.values(), *AVG_POOLS.values())
