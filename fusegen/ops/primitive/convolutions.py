"""Convolutions, left to PyTorch's own kernels, and their gradients.

Each has its operator's arguments in its order, all tuples complete. The gradients are library calls
of their own, one for each operand, so that one that nobody wants is not computed.
"""

from __future__ import annotations

from dataclasses import replace

from fusegen.ir.graph import Attributes, Node, TensorType
from fusegen.ops import build
from fusegen.ops.inference import Accepts, like_operand, require, require_window, show
from fusegen.ops.parameters import BIAS, INPUT, flag, integer, integers, tensor
from fusegen.ops.record import LibraryCall, OperationError, Parameter, ParameterKind


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
        spatial.append(require_window(result, input))
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
        infer=like_operand(1 + position),
        twin="torch.ops.aten.convolution_backward({grad_output}, {input}, {weight}, {bias_sizes}, "
        "{stride}, {padding}, {dilation}, {transposed}, {output_padding}, {groups}, "
        f"{{output_mask}})[{position}]",
        summary=f"The gradient of a convolution's {name}.",
        aten="aten::convolution_backward",
        results=3,
        result=position,
    )


INPUT_GRADIENT = _convolution_part("input", 0)
CONVOLUTION_GRADIENTS = (INPUT_GRADIENT, _convolution_part("weight", 1))


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


def _infer_channels_last(types: tuple[TensorType, ...], attributes: Attributes) -> TensorType:
    def second(type: TensorType) -> TensorType:
        first, *spatial, channels = type.shape
        return TensorType((first, channels, *spatial), type.dtype)

    images, channels, *spatial = _infer_convolution(tuple(map(second, types)), attributes).shape
    return TensorType((images, *spatial, channels), types[0].dtype)


CONVOLUTION_CHANNELS_LAST = replace(
    CONVOLUTION,
    name="convolution_channels_last",
    infer=_infer_channels_last,
    twin="torch.ops.aten.convolution({input}.movedim(-1, 1), {weight}.movedim(-1, 1), {bias}, "
    "{stride}, {padding}, {dilation}, {transposed}, {output_padding}, {groups}).movedim(1, -1)",
    summary="A convolution of tensors that have their channels in the last dim.",
    channels_last=True,
    gradient=None,
)

RECORDS = (CONVOLUTION,)
