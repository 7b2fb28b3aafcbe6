"""What stands in for PyTorch's operation where that is not exact in float64, or has no result."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

import torch
from torch import Tensor

from fusegen.ir.graph import Node
from fusegen.ops.composite.normalizations import (
    BATCH_NORM,
    GROUP_NORM,
    INSTANCE_NORM,
    LAYER_NORM,
    RMS_NORM,
)
from fusegen.ops.composite.reductions import NORM, PROD
from fusegen.ops.operands import unpack
from fusegen.ops.record import Monoid, Reduction
from fusegen.runtime.tensors import torch_dtype
from fusegen.testing.activation_stand_ins import activation_stand_in

BATCH_OPERANDS = ("input", "running_mean", "running_var", "weight", "bias")


def stand_in(node: Node, operands: Sequence[Tensor], sizes: Mapping[str, int]) -> Tensor | None:
    """The result of an operation on float64 operands, which autograd can differentiate; None where
    PyTorch's own is exact."""
    x = operands[0] if operands else None
    if x is None:
        return None
    activation = activation_stand_in(node, x)
    if activation is not None:
        return activation
    if node.operation is BATCH_NORM and not node.attributes.flag("training"):
        return _batch_norm(node, operands)
    if node.operation in (BATCH_NORM, INSTANCE_NORM) and x.numel():
        return _norm_of_channels(node, operands)
    if node.operation is GROUP_NORM and not x.numel():
        # PyTorch's gradient of the weight, a sum of nothing, is NaN.
        return x.clone()
    if node.operation in (LAYER_NORM, GROUP_NORM):
        return _norm(node, operands)
    if node.operation is RMS_NORM:
        return _rms_norm(node, operands)
    if node.operation is PROD and x.is_floating_point() and x.numel() and x.dim():
        return _product(node, x)
    if node.operation is NORM and x.is_floating_point():
        return _power_norm(node, x, sizes)
    if isinstance(node.operation, Reduction) and not x.numel():
        # PyTorch refuses the greatest of nothing, which is behind the softmax of nothing.
        nothing = {Monoid.MAXIMUM: -inf, Monoid.MINIMUM: inf}.get(node.operation.monoid)
        if nothing is not None and x.is_floating_point():
            return x.new_full([size.evaluate(sizes) for size in node.shape], nothing)
    return None


def _product(node: Node, x: Tensor) -> Tensor | None:
    """PyTorch's gradient at what is not finite depends on whether any other row has a 0."""
    dim = node.attributes["dim"]
    if not isinstance(dim, int):
        return None
    made: Tensor = _Product.apply(x, dim)  # type: ignore[no-untyped-call]
    return made if node.attributes.get("keepdim") else made.squeeze(dim)


def _power_norm(node: Node, x: Tensor, sizes: Mapping[str, int]) -> Tensor | None:
    """PyTorch's gradient divides by a power of the norm and multiplies by that of the element, each
    of which may be infinite; but where p is 2 it divides first."""
    p = node.attributes.number("p")
    if not 1 < p < inf or p == 2:
        return None
    made: Tensor = _PowerNorm.apply(x, p, node.attributes["dim"])  # type: ignore[no-untyped-call]
    return made.reshape([size.evaluate(sizes) for size in node.shape])


def _norm(node: Node, operands: Sequence[Tensor]) -> Tensor:
    """PyTorch's differences cancel where the mean is far from 0: of the gradient's terms, and of
    two sums for the variance where channels lie innermost. Of one value it leaves their errors."""
    x, weight, bias = unpack(operands, node.attributes, "input", "weight", "bias")
    assert x is not None
    together, of_weight = _normalised_shapes(node, x)
    result = _standardised(x.reshape(together), (-1,), node).reshape(x.shape)
    result = result if weight is None else result * weight.reshape(of_weight)
    return result if bias is None else result + bias.reshape(of_weight)


def _norm_of_channels(node: Node, operands: Sequence[Tensor]) -> Tensor:
    """PyTorch's x * scale + (bias - mean * scale) leaves errors where all of a channel is equal, or
    near its mean."""
    x, _, _, weight, bias = unpack(operands, node.attributes, *BATCH_OPERANDS)
    assert x is not None
    dims = tuple(range(2, x.dim()))
    result = _standardised(x, (0, *dims) if node.operation is BATCH_NORM else dims, node)
    by_channel = (-1, *(1 for _ in dims))
    result = result if weight is None else result * weight.reshape(by_channel)
    return result if bias is None else result + bias.reshape(by_channel)


def _standardised(x: Tensor, dims: tuple[int, ...], node: Node) -> Tensor:
    deviations = x - x.mean(dims, keepdim=True)
    return deviations / _root_mean_square(deviations, dims, node.attributes.number("eps"))


def _rms_norm(node: Node, operands: Sequence[Tensor]) -> Tensor:
    """PyTorch's on a GPU makes NaN of what stands beside an infinity, and without `eps` takes that
    of float64."""
    x, weight = unpack(operands, node.attributes, "input", "weight")
    assert x is not None
    _, own = _normalised_shapes(node, x)
    dims = tuple(range(x.dim() - len(own), x.dim()))
    eps = (
        torch.finfo(torch_dtype(node.dtype.compute)).eps
        if node.attributes["eps"] is None
        else node.attributes.number("eps")
    )
    result = x / _root_mean_square(x, dims, eps)
    return result if weight is None else result * weight


def _root_mean_square(x: Tensor, dims: tuple[int, ...], eps: float) -> Tensor:
    """The root of `eps` more than the mean of the squares over `dims`, which are kept."""
    made: Tensor = _RootMeanSquare.apply(x, dims, eps)  # type: ignore[no-untyped-call]
    return made


def _normalised_shapes(node: Node, x: Tensor) -> tuple[Sequence[int], Sequence[int]]:
    """The input's shape with what is normalised together in its last dimension, and the weight's
    as it multiplies the input."""
    if node.operation is GROUP_NORM:
        groups = node.attributes.integer("num_groups")
        return (x.shape[0], groups, -1), (-1, *(1 for _ in x.shape[2:]))
    own = x.shape[x.dim() - len(node.attributes.sizes("normalized_shape")) :]
    return (*x.shape[: x.dim() - len(own)], math.prod(own)), own


def _batch_norm(node: Node, operands: Sequence[Tensor]) -> Tensor:
    """PyTorch's x * scale + (bias - mean * scale) cancels where x is near the running mean."""
    x, mean, variance, weight, bias = unpack(operands, node.attributes, *BATCH_OPERANDS)
    assert x is not None and mean is not None and variance is not None

    def by_channel(vector: Tensor) -> Tensor:
        return vector.reshape(-1, *(1 for _ in x.shape[2:]))

    deviation = torch.sqrt(variance.detach() + node.attributes.number("eps"))
    result = (x - by_channel(mean.detach())) / by_channel(deviation)
    result = result if weight is None else result * by_channel(weight)
    return result if bias is None else result + by_channel(bias)


class _RootMeanSquare(torch.autograd.Function):
    """Autograd would go by way of the squares, whose gradient is less than float64's least number
    where x is 10^145 and the gradient 10^-39, and times x again a number like others."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dims: tuple[int, ...], eps: float) -> Tensor:
        result = torch.sqrt(x.square().mean(dims, keepdim=True) + eps)
        ctx.save_for_backward(x, result)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        x, result = ctx.saved_tensors
        count = x.numel() // max(result.numel(), 1)
        return gradient / max(count, 1) * (x / result), None, None


class _PowerNorm(torch.autograd.Function):
    """With the power of the quotient, which is at most 1; the dims are kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float, dim: Any) -> Tensor:
        result: Tensor = torch.linalg.vector_norm(x, p, dim, keepdim=True)
        slope = x.sign() * (x.abs() / result) ** (p - 1)
        ctx.save_for_backward(slope, result == 0)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        slope, vanishes = ctx.saved_tensors
        return torch.where(vanishes, 0.0, gradient * slope), None, None


class _Product(torch.autograd.Function):
    """The quotient by the element, and in rows that have a 0 the product of the other elements."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int) -> Tensor:
        result = x.prod(dim, keepdim=True)
        first = torch.ones_like(x.narrow(dim, 0, 1))
        before, after = (
            torch.cat((first, way.narrow(dim, 0, x.shape[dim] - 1)), dim).cumprod(dim)
            for way in (x, x.flip(dim))
        )
        has_zero = (x == 0).any(dim, keepdim=True)
        ctx.save_for_backward(torch.where(has_zero, before * after.flip(dim), result / x))
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (slope,) = ctx.saved_tensors
        return gradient * slope, None
