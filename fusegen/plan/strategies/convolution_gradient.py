"""The gradient of a convolution's input, which is a convolution of the result's gradient.

Each element of the input has part in as many elements of the result as the kernel has: with the
kernel turned by half a turn, its channels exchanged, and as much padding as makes the result as
large as the input was, the same kernel as for few channels computes their sum.
"""

from __future__ import annotations

from fusegen.ir.graph import Attributes, Node, Placeholder, Role, TensorType
from fusegen.ops.primitive.convolutions import CONVOLUTION, INPUT_GRADIENT
from fusegen.ops.record import LibraryCall
from fusegen.plan.expressions import Accumulator
from fusegen.plan.group import Context, Group, NotApplicable
from fusegen.plan.kernels.convolution import ConvolutionPlan
from fusegen.plan.kernels.stores import Store
from fusegen.plan.pixel_tiles import axes_of, window_of
from fusegen.plan.strategies.convolution import (
    DTYPES,
    convolution_plan,
    domain_of,
    input_place,
    load_at,
)


def plan(group: Group, context: Context) -> tuple[ConvolutionPlan]:
    """The gradient in one kernel, where the convolution took each pixel of few channels."""
    calls = group.having(LibraryCall)
    if len(group.nodes) != 1 or not calls or calls[0].operation is not INPUT_GRADIENT:
        raise NotApplicable("it is not the gradient of a convolution's input alone")
    (gradient,) = calls
    node = _as_convolution(gradient)
    axes, window = axes_of(node), window_of(node)
    rows, columns = window.kernel
    turned = (
        axes.input_channel,
        axes.channel,
        rows - 1 - axes.kernel_row,
        columns - 1 - axes.kernel_column,
    )
    incoming, _, weight = (context.buffers[operand] for operand in gradient.operands)
    domain = domain_of(node)
    position = domain.row * domain.columns + domain.column
    made = Accumulator(node.dtype, gradient.written_as)
    return (
        convolution_plan(
            group,
            context,
            node,
            (load_at(incoming, input_place(axes)), load_at(weight, turned)),
            (Store(context.buffers[gradient], position, made),),
            (),
            (),
            "the gradient of a convolution of few channels is a convolution with the kernel turned",
        ),
    )


def _as_convolution(gradient: Node) -> Node:
    """The convolution that gives the gradient, of a weight that stands nowhere as such."""
    attributes = gradient.attributes
    incoming, _, weight = gradient.operands
    is_plain = not attributes.flag("transposed") and attributes.integer("groups") == 1
    if gradient.type.rank != 4 or not is_plain or attributes.integers("stride") != (1, 1):
        raise NotApplicable("only a plain two-dimensional convolution has a gradient kernel")
    if gradient.dtype not in DTYPES:
        raise NotApplicable(f"a convolution of {gradient.dtype.value} has no kernel of its own")
    channels, input_channels, *kernel = weight.shape
    if any(size.constant is None for size in weight.shape):
        raise NotApplicable("the weight's size is known only at run time")
    dilation = attributes.integers("dilation")
    padding = tuple(
        apart * (size.constant - 1) - pad
        for apart, size, pad in zip(dilation, kernel, attributes.integers("padding"), strict=True)
        if size.constant is not None
    )
    if min(padding) < 0:
        raise NotApplicable("the convolution has results that no pixel has part in")
    turned = Node(
        Placeholder("placeholder", Role.PARAMETER, "turned"),
        (),
        Attributes(),
        TensorType((input_channels, channels, *kernel), weight.dtype),
    )
    windows = Attributes.of(
        bias=None,
        stride=(1, 1),
        padding=padding,
        dilation=dilation,
        transposed=False,
        output_padding=(0, 0),
        groups=1,
    )
    return Node(CONVOLUTION, (incoming, turned), windows, gradient.type)
