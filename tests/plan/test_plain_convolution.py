"""What convolutions, transposed ones and gradients of inputs are as plain convolutions."""

from __future__ import annotations

import pytest

from fusegen.ir.graph import Node, topological
from fusegen.ops import build
from fusegen.ops.primitive.convolutions import CONVOLUTION, INPUT_GRADIENT
from fusegen.passes import pipeline
from fusegen.plan.group import NotApplicable
from fusegen.plan.plain_convolution import convolution_of, plain_convolution
from fusegen.plan.window import Window
from tests.emulated import apply, graph, value

ONES = (1, 1, 1)


def call(name: str, **given: object) -> Node:
    """The library's call of an operation with a kernel of 3 x 2, from 5 to 4 channels."""
    shape = (5, 4) if "transpose" in name else (4, 5)
    x, weight = value("x", "n", 5, "h", "w"), value("weight", *shape, 3, 2)
    decomposed = pipeline.run(graph([x, weight], apply(name, x, weight, **given)))
    return next(n for n in topological(decomposed.roots) if n.operation is CONVOLUTION)


def gradient(node: Node) -> Node:
    """The gradient of a call's input."""
    x, weight = node.operands
    incoming = value("incoming", *node.shape)
    windows = {name: given for name, given in node.attributes.items() if name != "bias"}
    return build.call(
        INPUT_GRADIENT, (incoming, x, weight), output_mask=(True, False, False), **windows
    )


def test_a_plain_one_is_itself() -> None:
    made = plain_convolution(call("conv2d", stride=(2, 1), padding=(1, 0), dilation=(1, 3)))
    assert made.window == Window((1, 3, 2), (1, 2, 1), (0, 1, 0), (1, 1, 3), ONES)
    assert (made.channels, made.input_channels, made.turned) == (4, 5, False)


def test_a_transposed_one_reads_its_input_spread_out() -> None:
    made = plain_convolution(call("conv_transpose2d", stride=(2, 3), padding=(1, 0)))
    assert made.window == Window((1, 3, 2), ONES, (0, 1, 1), ONES, (1, 2, 3))
    assert (made.channels, made.input_channels, made.turned) == (4, 5, True)


def test_gradients_of_inputs_are_the_other_kind() -> None:
    scattering = plain_convolution(gradient(call("conv2d", stride=(2, 3), padding=(1, 0))))
    assert scattering.window == Window((1, 3, 2), ONES, (0, 1, 1), ONES, (1, 2, 3))
    assert (scattering.channels, scattering.input_channels) == (5, 4) and scattering.turned
    gathering = plain_convolution(gradient(call("conv_transpose2d", stride=2, padding=1)))
    assert gathering.window == Window((1, 3, 2), (1, 2, 2), (0, 1, 1), ONES, ONES)
    assert (gathering.channels, gathering.input_channels) == (5, 4) and not gathering.turned


def test_results_that_nothing_has_part_in_are_refused() -> None:
    with pytest.raises(NotApplicable, match="no pixel has part in"):
        plain_convolution(call("conv_transpose2d", padding=(2, 2), output_padding=0, stride=2))


def test_there_must_be_one_convolution() -> None:
    node = call("conv2d")
    assert convolution_of((node,)).result is node
    with pytest.raises(NotApplicable, match="exactly one"):
        convolution_of((node, node))
