"""What stands in for PyTorch's operation where that is not exact in float64, or has no result."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

import torch
from torch import Tensor

from fusegen.ir.graph import Node
from fusegen.ops.composite.normalizations import BATCH_NORM, GROUP_NORM, LAYER_NORM, RMS_NORM
from fusegen.ops.composite.reductions import PROD
from fusegen.ops.operands import unpack
from fusegen.ops.record import Monoid, Reduction
from fusegen.runtime.tensors import torch_dtype
from fusegen.testing.activation_stand_ins import activation_stand_in


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
    if node.operation is GROUP_NORM and not x.numel():
        # PyTorch's gradient of the weight, a sum of nothing, is NaN.
        return x.clone()
    if node.operation in (LAYER_NORM, GROUP_NORM):
        return _norm(node, operands)
    if node.operation is RMS_NORM:
        return _rms_norm(node, operands)
    if node.operation is PROD and x.is_floating_point() and x.numel() and x.dim():
        return _product(node, x)
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


def _norm(node: Node, operands: Sequence[Tensor]) -> Tensor:
    """PyTorch's differences cancel where the mean is far from 0: of the gradient's terms, and of
    two sums for the variance where channels lie innermost. Of one value it leaves their errors."""
    x, weight, bias = unpack(operands, node.attributes, "input", "weight", "bias")
    assert x is not None
    together, of_weight = _normalised_shapes(node, x)
    rows = x.reshape(together)
    deviations = rows - rows.mean(-1, keepdim=True)
    variance = deviations.square().mean(-1, keepdim=True)
    result = (deviations / torch.sqrt(variance + node.attributes.number("eps"))).reshape(x.shape)
    result = result if weight is None else result * weight.reshape(of_weight)
    return result if bias is None else result + bias.reshape(of_weight)


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
    result = x * torch.rsqrt(x.square().mean(dims, keepdim=True) + eps)
    return result if weight is None else result * weight


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
    x, mean, variance, weight, bias = unpack(
        operands, node.attributes, "input", "running_mean", "running_var", "weight", "bias"
    )
    assert x is not None and mean is not None and variance is not None

    def by_channel(vector: Tensor) -> Tensor:
        return vector.reshape(-1, *(1 for _ in x.shape[2:]))

    deviation = torch.sqrt(variance.detach() + node.attributes.number("eps"))
    result = (x - by_channel(mean.detach())) / by_channel(deviation)
    result = result if weight is None else result * by_channel(weight)
    return result if bias is None else result + by_channel(bias)


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
