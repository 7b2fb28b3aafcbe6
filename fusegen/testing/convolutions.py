"""What PyTorch's convolutions, which are its own kernels, may make of sums and of margins."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from fusegen.ir.graph import Node
from fusegen.ops.record import LibraryCall


def is_convolution(operation: LibraryCall) -> bool:
    """Whether it is one, or a gradient of one."""
    return operation.name.startswith("convolution")


def terms_of(operation: LibraryCall, operands: Sequence[Tensor]) -> int:
    """How many products an element is the sum of, at most; the operands are (input, weight), or
    (gradient, input, weight) of a gradient."""
    if operation.name == "convolution_weight_gradient":
        return operands[0][:, 0].numel()
    weight = operands[2] if operation.name == "convolution_input_gradient" else operands[1]
    return max(weight[0].numel(), weight[:, 0].numel())


def partial_sums(node: Node, operands: Sequence[Tensor]) -> int:
    """How many parts of a convolution's element the library may add up in the result's own type, as
    it does on the CPU: a weight's gradient image by image, and one window's elements where they are
    scattered."""
    name = node.operation.name
    if name == "convolution_weight_gradient":
        return len(operands[0])
    is_gradient = name == "convolution_input_gradient"
    is_scattered = node.attributes.flag("transposed") is not is_gradient
    return operands[2 if is_gradient else 1][0, 0].numel() if is_scattered else 0


def is_nan_by_elements(
    operation: LibraryCall, operands: Sequence[Tensor], of: Callable[[Sequence[Tensor]], Tensor]
) -> Tensor:
    """Which elements of a convolution are NaN whatever is made of the zeros of a margin: as one of
    their products is, or products are infinities of both signs."""
    # An input's gradient depends on that input's shape alone, and a weight's on the weight's.
    pair = (0, 2) if operation.name == "convolution_input_gradient" else (0, 1)
    bias = operands[2] if operation.name == "convolution" and len(operands) > 2 else None
    left, right = (operands[i] for i in pair)
    every = torch.ones_like(left), torch.ones_like(right)

    def any_of(*products: tuple[Tensor, Tensor], added: Tensor | None = None) -> Tensor:
        """Where some of the products' factors meet, or something is added."""
        count = None
        for first, second in products:
            given = [torch.zeros_like(operand) for operand in operands]
            given[pair[0]], given[pair[1]] = first.double(), second.double()
            if bias is not None and added is not None:
                given[2] = added.double()
            found = of(given)
            count = found if count is None else count + found
        assert count is not None
        return count > 0

    def infinite(sign: int) -> Tensor:
        """Where a product is an infinity of that sign."""
        return any_of(
            (left == math.inf, right * sign > 0),
            (left == -math.inf, right * sign < 0),
            (left > 0, right == sign * math.inf),
            (left < 0, right == -sign * math.inf),
            added=None if bias is None else bias == sign * math.inf,
        )

    is_nan = any_of(
        (left.isnan(), every[1]),
        (every[0], right.isnan()),
        (left.isinf(), right == 0),
        (left == 0, right.isinf()),
        added=None if bias is None else bias.isnan(),
    )
    return is_nan | (infinite(1) & infinite(-1))
