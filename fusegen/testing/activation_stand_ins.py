"""What stands in for PyTorch's activations where they are not exact in float64, or vary."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from fusegen.ir.graph import Node
from fusegen.ops.pointwise.activations import (
    CELU,
    ELU,
    GELU,
    HARDSHRINK,
    HARDSIGMOID,
    HARDSWISH,
    HARDTANH,
    RELU6,
    SELU,
    SELU_ALPHA,
    SELU_SCALE,
    SIGMOID,
    SOFTSHRINK,
    SOFTSIGN,
    TANHSHRINK,
)

# PyTorch's gradient at NaN is that of a number or NaN, by how many there are and by the processor:
# on a GPU it passes. So it is with whether a softshrink is 0 or -0. That of celu takes 1 / alpha in
# float32.
PASSING_AT_NAN = frozenset({CELU, ELU, HARDSHRINK, HARDSWISH, HARDTANH, RELU6, SELU, SOFTSHRINK})


def activation_stand_in(node: Node, x: Tensor) -> Tensor | None:
    """An activation of float64 numbers, which autograd can differentiate; None where PyTorch's own
    is exact, or the operation is none of these."""
    if node.operation is GELU:
        if node.attributes.text("approximate") == "tanh":
            return _gelu_by_tanh(x)
        made: Tensor = _Gelu.apply(x)  # type: ignore[no-untyped-call]
        return made
    if node.operation is SIGMOID:
        logistic: Tensor = _Sigmoid.apply(x)  # type: ignore[no-untyped-call]
        return logistic
    if node.operation in PASSING_AT_NAN:
        return _passing_at_nan(node, x)
    if node.operation is TANHSHRINK:
        curved: Tensor = _Tanhshrink.apply(x)  # type: ignore[no-untyped-call]
        return curved
    if node.operation is SOFTSIGN:
        signed: Tensor = _Softsign.apply(x)  # type: ignore[no-untyped-call]
        return signed
    if node.operation is HARDSIGMOID:
        # PyTorch's gradient multiplies by the sixth that float32 has.
        flat = (x.detach() / 6 + 0.5).clamp(0, 1)
        return torch.where((x > -3) & (x < 3), x / 6 + 0.5, flat)
    return None


def _passing_at_nan(node: Node, x: Tensor) -> Tensor:
    """An activation that is x or a multiple of it, whose gradient passes, beyond where it bends."""
    attributes = node.attributes
    made: Tensor
    if node.operation in (SOFTSHRINK, HARDSHRINK):
        made = _Shrink.apply(x, node)  # type: ignore[no-untyped-call]
    elif node.operation in (HARDTANH, RELU6):
        ends = ("min_val", "max_val")
        bounds = (0.0, 6.0) if node.operation is RELU6 else map(attributes.number, ends)
        made = _Held.apply(x, *bounds)  # type: ignore[no-untyped-call]
    elif node.operation is HARDSWISH:
        made = _Hardswish.apply(x)  # type: ignore[no-untyped-call]
    elif node.operation is SELU:
        made = _Elu.apply(x, SELU_ALPHA, 1.0, SELU_SCALE)  # type: ignore[no-untyped-call]
    else:
        alpha = attributes.number("alpha")
        width = alpha if node.operation is CELU else 1.0
        made = _Elu.apply(x, alpha, width, 1.0)  # type: ignore[no-untyped-call]
    return made


class _Gelu(torch.autograd.Function):
    """PyTorch's 1 + erf loses its digits in the left tail, also in float64."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * _normal_distribution(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        density = torch.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
        result: Tensor = gradient * (_normal_distribution(x) + x * density)
        return result


def _gelu_by_tanh(x: Tensor) -> Tensor:
    """PyTorch's 1 + tanh loses its digits in the left tail, also in float64."""
    return x * torch.sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))


class _Sigmoid(torch.autograd.Function):
    """PyTorch's 1 / (1 + exp(-x)) is 0 where the exponential overflows."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        small = torch.exp(-x.abs())
        ctx.save_for_backward(small)
        return torch.where(x < 0, small, 1.0) / (1 + small)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (small,) = ctx.saved_tensors
        result: Tensor = gradient * (small / (1 + small).square())
        return result


class _Held(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, lowest: float, highest: float) -> Tensor:
        ctx.save_for_backward((x <= lowest) | (x >= highest))
        return x.clamp(lowest, highest)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (outside,) = ctx.saved_tensors
        return torch.where(outside, 0.0, gradient), None, None


class _Hardswish(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * (x + 3).clamp(0, 6) / 6

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        bent = torch.where(x < 3, gradient * (x / 3 + 0.5), gradient)
        return torch.where(x <= -3, 0.0, bent)


class _Elu(torch.autograd.Function):
    """`scale * x` where x is positive, else `scale * alpha * (exp(x / width) - 1)`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, alpha: float, width: float, scale: float) -> Tensor:
        scaled = x.clamp(max=0) / width
        slope = torch.where(x <= 0, alpha / width * torch.exp(scaled), 1.0)
        ctx.save_for_backward(slope * scale)
        return torch.where(x <= 0, alpha * torch.expm1(scaled), x) * scale

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        (slope,) = ctx.saved_tensors
        return gradient * slope, None, None, None


class _Softsign(torch.autograd.Function):
    """PyTorch's gradient is a difference of terms that cancel where x is large, and at infinities
    NaN."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        divisor = 1 + x.abs()
        result = x / divisor
        ctx.save_for_backward(divisor, result)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        divisor, result = ctx.saved_tensors
        return torch.where(result.isnan(), result, gradient / divisor / divisor)


class _Tanhshrink(torch.autograd.Function):
    """PyTorch's gradient is a difference that cancels where x is small."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        tanh = torch.tanh(x)
        ctx.save_for_backward(tanh)
        return x - tanh

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (tanh,) = ctx.saved_tensors
        result: Tensor = gradient * tanh.square()
        return result


class _Shrink(torch.autograd.Function):
    """Values as on a GPU, where what is held near 0 keeps its sign."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, node: Node) -> Tensor:
        lambd = node.attributes.number("lambd")
        held = x.abs() <= lambd
        ctx.save_for_backward(held)
        if node.operation is HARDSHRINK:
            return torch.where(held, 0.0, x)
        return torch.where(held, x * 0, x - lambd * x.sign())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (held,) = ctx.saved_tensors
        return torch.where(held, 0.0, gradient), None


def _normal_distribution(x: Tensor) -> Tensor:
    return 0.5 * torch.erfc(-math.sqrt(0.5) * x)
