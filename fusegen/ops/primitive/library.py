"""Operations left to PyTorch's own kernels: convolution and pooling.

Each has its operator's arguments in its order, all tuples complete.
"""

from __future__ import annotations

from fusegen.ir.graph import Attributes, TensorType
from fusegen.ir.integers import Integer, is_never_negative
from fusegen.ops.inference import Accepts, require, show
from fusegen.ops.parameters import BIAS, INPUT, flag, integer, integers, tensor
from fusegen.ops.record import Inference, LibraryCall, OperationError, Parameter


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


CONVOLUTION = LibraryCall(
    "convolution",
    parameters=(
        INPUT,
        tensor("weight"),
        BIAS,
        integers("stride"),
        integers("padding"),
        integers("dilation"),
        flag("transposed"),
        integers("output_padding"),
        integer("groups"),
    ),
    infer=_infer_convolution,
    twin="torch.ops.aten.convolution({input}, {weight}, {bias}, {stride}, {padding}, {dilation}, "
    "{transposed}, {output_padding}, {groups})",
    summary="A convolution or a transposed one, over any number of spatial dims.",
    aten="aten::convolution",
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


def _max_pool(rank: int) -> LibraryCall:
    return LibraryCall(
        f"max_pool{rank}d",
        parameters=(
            INPUT,
            integers("kernel_size"),
            integers("stride"),
            integers("padding"),
            integers("dilation"),
            flag("ceil_mode"),
        ),
        infer=_pooling(dilated=True),
        twin=f"torch.ops.aten.max_pool{rank}d({{input}}, {{kernel_size}}, {{stride}}, {{padding}}, "
        "{dilation}, {ceil_mode})",
        summary="The greatest element of each window.",
        aten=f"aten::max_pool{rank}d",
    )


def _avg_pool(rank: int) -> LibraryCall:
    divisor: tuple[Parameter, ...] = (integer("divisor_override", None),) if rank > 1 else ()
    return LibraryCall(
        f"avg_pool{rank}d",
        parameters=(
            INPUT,
            integers("kernel_size"),
            integers("stride"),
            integers("padding"),
            flag("ceil_mode"),
            flag("count_include_pad", True),
            *divisor,
        ),
        infer=_pooling(dilated=False),
        twin=f"torch.ops.aten.avg_pool{rank}d({{input}}, {{kernel_size}}, {{stride}}, {{padding}}, "
        "{ceil_mode}, {count_include_pad}" + (", {divisor_override})" if rank > 1 else ")"),
        summary="The mean of each window.",
        aten=f"aten::avg_pool{rank}d",
    )


MAX_POOLS = {rank: _max_pool(rank) for rank in (1, 2, 3)}
AVG_POOLS = {rank: _avg_pool(rank) for rank in (1, 2, 3)}

RECORDS = (CONVOLUTION, *MAX_POOLS.values(), *AVG_POOLS.values())
