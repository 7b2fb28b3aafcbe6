"""Poolings, left to PyTorch's own kernels, and their gradients.

Each has its operator's arguments in its order, all tuples complete.
"""

from __future__ import annotations

from collections.abc import Callable

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Attributes, Node, TensorType
from fusegen.ir.integers import Integer, is_never_negative
from fusegen.ops import build
from fusegen.ops.inference import Accepts, like_operand, require, require_window
from fusegen.ops.parameters import INPUT, flag, integer, integers, tensor
from fusegen.ops.record import Gradient, Inference, LibraryCall, OperationError, Parameter


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
            require_window(pooled_size(*sizes, ceil_mode), input)
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
# The ranks whose gradients have the same bits in every run on a GPU; those of three dims add up in
# any order there (documentation of torch.use_deterministic_algorithms).
REPEATABLE = (2,)


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
        infer=like_operand(1),
        twin=f"torch.ops.aten.max_pool{rank}d_with_indices_backward({{grad_output}}, {{input}}, "
        f"{_texts(_MAX_WINDOWS)}, {{indices}})",
        summary="The gradient of a max pool: to the greatest element of each window.",
        aten=f"aten::max_pool{rank}d_with_indices_backward",
        repeatable=rank in REPEATABLE,
    )


def _avg_pool_part(rank: int) -> LibraryCall:
    windows = (*_MEAN_WINDOWS, _DIVISOR)
    return LibraryCall(
        f"avg_pool{rank}d_gradient",
        parameters=(tensor("grad_output"), INPUT, *windows),
        infer=like_operand(1),
        twin=f"torch.ops.aten.avg_pool{rank}d_backward({{grad_output}}, {{input}}, "
        f"{_texts(windows)})",
        summary="The gradient of an average pool: evenly to the elements of each window.",
        aten=f"aten::avg_pool{rank}d_backward",
        repeatable=rank in REPEATABLE,
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

RECORDS = (*MAX_POOLS.values(), *AVG_POOLS.values())
