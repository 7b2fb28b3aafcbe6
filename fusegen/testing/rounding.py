"""How large a rounding error a careful implementation makes in one operation.

Written u for the unit roundoff of a type, half its epsilon. Sums of n terms are taken to err by a
random walk, sqrt(n) u times the sum of magnitudes (Higham and Mary, "A new approach to
probabilistic rounding error analysis", 2019), which blocked and tree sums stay below.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Node
from fusegen.ops.pointwise.activations import GELU, GELU_SLOPE, TANHSHRINK
from fusegen.ops.pointwise.casting import AS_STORED
from fusegen.ops.record import (
    Concatenation,
    LibraryCall,
    Monoid,
    Pointwise,
    Product,
    Reduction,
    Reshape,
    View,
)
from fusegen.runtime.tensors import torch_dtype
from fusegen.testing import convolutions

# A function of the device's mathematics library errs by about two units in the last place, which
# are four unit roundoffs (CUDA C++ Programming Guide, mathematical functions).
FUNCTION_UNITS = 4.0
# Below minus this gelu is 0 in every type.
GELU_TAIL = 40.0
# How far a mean of equal elements may be off, in unit roundoffs.
MEAN_UNITS = 4.0


@dataclass(frozen=True)
class Precision:
    """What precision the arithmetic of float32 has: unit roundoffs of the operands of products and
    of convolutions, which TF32 and bfloat16 modes make greater. Values that stay `in_registers`
    from one operation to the next are rounded as those of the compute type, not as stored ones.
    Where it is `unbounded`, values are never too large or too small for their type."""

    product: float = 0.0
    convolution: float = 0.0
    in_registers: bool = False
    unbounded: bool = False


# Of TF32's 10 bits behind the point, which the hardware may get by cutting off.
TF32_UNIT = 2.0**-10


def precision_by_settings(on_gpu: bool) -> Precision:
    """What PyTorch's settings let float32 products and convolutions round their operands to, on a
    GPU or on the CPU."""
    try:
        mode = torch.get_float32_matmul_precision()
    except RuntimeError:  # set in the newer way, for a back end, which hides it
        mode = "high" if torch.backends.cuda.matmul.fp32_precision == "tf32" else "highest"
    library_tf32 = on_gpu and torch.backends.cudnn.allow_tf32
    return Precision(
        product={"highest": 0.0, "high": TF32_UNIT, "medium": 2.0**-8}[mode],
        convolution=TF32_UNIT if library_tf32 else 0.0,
    )


def unit(dtype: DType) -> float:
    """The unit roundoff of a float type."""
    return float(torch.finfo(torch_dtype(dtype)).eps) / 2


def least(dtype: DType) -> float:
    """The smallest positive number of a float type, which is what underflow may cost."""
    found = torch.finfo(torch_dtype(dtype))
    return float(found.tiny * found.eps)


def rounding_error(
    node: Node,
    value: Tensor,
    operands: Sequence[Tensor],
    precision: Precision,
    of: Callable[[Sequence[Tensor]], Tensor],
) -> Tensor | None:
    """The error that the node itself may add to each element of its float64 `value`, given its
    `operands`; None for an operation that only moves or selects elements. `of` gives what the
    operation makes of other operands, such as the finite ones' magnitudes.

    A 0 that was selected, or is made of zeros alone, has no error: which elements a relu masks
    depends on it."""
    operation = node.operation
    inner = unit(node.dtype.compute)
    kept = node.dtype.compute if precision.in_registers else node.dtype
    lost = 0.0 if precision.unbounded else least(kept)
    stored = unit(kept) * value.abs() + lost
    if operation is AS_STORED:  # compared with what was made from the very same value
        return None
    if isinstance(operation, Pointwise):
        if operation.exact:
            return None if kept is node.dtype.compute else _of_storing(value, kept)
        if not precision.unbounded:
            stored = stored + _lost_on_the_way(node) * _greatest(value, operands)
        if operation is TANHSHRINK:  # x - tanh(x) cancels, in eager mode as well
            return stored + FUNCTION_UNITS * inner * operands[0].abs()
        size = FUNCTION_UNITS * inner * value.abs()
        if operation is GELU_SLOPE:  # the sum of two terms, that cancel at its zero
            size = size + FUNCTION_UNITS * inner * _density_term(operands[0])
        if operation in (GELU, GELU_SLOPE):  # the left tail is an exponential of the square
            size = size * (1 + operands[0].clamp(-GELU_TAIL, 0).square())
        # What underflows in float64 does so in narrower types, too.
        return torch.where(value == 0, 0.0, stored + size)
    if isinstance(operation, Reduction):
        rule = _REDUCTIONS.get(operation.monoid)
        if rule is None:
            return None
        (operand,) = operands
        size = rule(node, value, operand)
        return torch.where(size == 0, 0.0, stored + inner * size)
    if isinstance(operation, (Product, LibraryCall)):
        magnitudes = of([_finite(operand) for operand in operands])
        if isinstance(operation, Product):
            relative = _walk(node, operands[0].shape[-1], precision.product)
        elif convolutions.is_convolution(operation):
            terms = convolutions.terms_of(operation, operands)
            relative = _walk(node, terms, precision.convolution)
            relative += unit(node.dtype) * math.sqrt(convolutions.partial_sums(node, operands))
            if not precision.unbounded:
                # The library's takes subnormal numbers for zero, in torch 2.11.
                times = max([1.0, *(float(_finite(o).max()) for o in operands if o.numel())])
                stored = stored + terms * times * _tiny(node.dtype.compute)
        else:
            relative = FUNCTION_UNITS * inner
        return torch.where(magnitudes == 0, 0.0, stored + relative * magnitudes)
    assert isinstance(operation, (View, Reshape, Concatenation)), node.operation.name
    return None


def _density_term(x: Tensor) -> Tensor:
    """The magnitude of x times the density of the normal distribution, twice."""
    held = x.abs().clamp(max=GELU_TAIL)
    return held * torch.exp(-0.5 * held * held) * math.sqrt(2 / math.pi)


def _lost_on_the_way(node: Node) -> float:
    """What underflow on the way costs, as in x * exp(x), in units of an operand; what has a 16-bit
    result may take quicker functions, for which subnormal numbers are zero."""
    return least(node.dtype) if node.dtype.compute is node.dtype else _tiny(node.dtype.compute)


def _tiny(dtype: DType) -> float:
    """The least normal number of a float type."""
    return float(torch.finfo(torch_dtype(dtype)).tiny)


def _of_storing(value: Tensor, dtype: DType) -> Tensor:
    """What rounding to a narrower type changes, of what that can represent."""
    off = (value.to(torch_dtype(dtype)).double() - value).abs()
    return torch.where(off.isfinite(), off, 0.0)


def _finite(operand: Tensor) -> Tensor:
    """The magnitudes of what is finite, and 0, in the operand's own type."""
    return torch.where(operand.isfinite(), operand.abs(), 0)


def _greatest(value: Tensor, operands: Sequence[Tensor]) -> Tensor:
    """The greatest finite magnitude among the operands of each element."""
    found = torch.zeros_like(value)
    for operand in operands:
        if operand.is_floating_point():
            found = torch.maximum(found, _finite(operand))
    return found


def overflows(
    node: Node,
    value: Tensor,
    operands: Sequence[Tensor],
    of: Callable[[Sequence[Tensor]], Tensor],
) -> Tensor | None:
    """Where a sum on the way to the node's `value` may leave the range of the type that it is
    accumulated in, whatever becomes of it then; None for an operation that sums nothing. `of` gives
    what the operation makes of other operands."""
    operation = node.operation
    greatest = torch.finfo(torch_dtype(node.dtype.compute)).max
    if isinstance(operation, Reduction):
        if operation.monoid is Monoid.MOMENTS:
            return value > greatest
        if operation.monoid in (Monoid.SUM, Monoid.MEAN):
            lost = _over(node, _finite(operands[0]), torch.sum) > greatest
            # Of one infinity, as the mean by deviations from a mean is NaN.
            return lost | value.isinf() if operation.monoid is Monoid.MEAN else lost
        if operation.monoid is Monoid.PRODUCT:
            return _leaves_range(node, operands[0])
        return None
    if isinstance(operation, (Product, LibraryCall)):
        magnitudes = of([_finite(operand) for operand in operands])
        if isinstance(operation, Product):
            return magnitudes > greatest
        if convolutions.is_convolution(operation) and convolutions.partial_sums(node, operands):
            greatest = torch.finfo(torch_dtype(node.dtype)).max
        lost = magnitudes > greatest
        # An infinity times the zeros of a margin is NaN, or is left out.
        lost |= value.isinf()
        if convolutions.is_convolution(operation):
            lost |= value.isnan() & ~convolutions.is_nan_by_elements(operation, operands, of)
        return lost
    return None


def _leaves_range(node: Node, operand: Tensor) -> Tensor:
    """Where the product of some of the factors is infinite, or as small as nothing although that of
    others is great."""
    finite = torch.where(operand.isfinite() & (operand != 0), operand.abs(), 1.0)
    up, down = (
        _over(node, part, torch.sum)
        for part in (finite.clamp(min=1.0).log2(), -finite.clamp(max=1.0).log2())
    )
    found = torch.finfo(torch_dtype(node.dtype.compute))
    return (up > math.log2(found.max)) | ((up > 0) & (down > -math.log2(found.tiny)))


def _walk(node: Node, terms: int, operand_unit: float) -> float:
    """The relative error of a sum of products whose operands a mode rounds to another type."""
    rounded = 2 * operand_unit if node.dtype is DType.FLOAT32 else 0.0
    return unit(node.dtype.compute) * (1 + math.sqrt(terms)) + rounded


Rule = Callable[[Node, Tensor, Tensor], Tensor]


def _sum(node: Node, value: Tensor, operand: Tensor) -> Tensor:
    magnitudes = _over(node, operand.abs(), torch.sum)
    return (1 + math.sqrt(_count(node, operand))) * magnitudes


def _mean(node: Node, value: Tensor, operand: Tensor) -> Tensor:
    return _sum(node, value, operand) / max(_count(node, operand), 1)


def _product(node: Node, value: Tensor, operand: Tensor) -> Tensor:
    return _count(node, operand) * value.abs()


def _moments(node: Node, value: Tensor, operand: Tensor) -> Tensor:
    """Welford's recurrence errs by its condition number (Chan, Golub, LeVeque, "Algorithms for
    computing the sample variance", 1983): n m^2 against the deviations, and under a root."""
    count = _count(node, operand)
    mean = _over(node, operand, torch.mean)
    conditioned = math.sqrt(count) * (value.abs() + mean.abs() * value.clamp(min=0).sqrt())
    # Where all elements are equal, what is left of a mean that is a few units off.
    off = MEAN_UNITS * unit(node.dtype.compute) * mean.abs()
    return conditioned + count * off * off / unit(node.dtype.compute)


def _log_sum_exp(node: Node, value: Tensor, operand: Tensor) -> Tensor:
    return 2 * (1 + math.sqrt(_count(node, operand))) + 2 * value.abs()


_REDUCTIONS: dict[Monoid, Rule] = {
    Monoid.SUM: _sum,
    Monoid.MEAN: _mean,
    Monoid.PRODUCT: _product,
    Monoid.MOMENTS: _moments,
    Monoid.LOG_SUM_EXP: _log_sum_exp,
}


def _over(node: Node, operand: Tensor, function: Callable[..., Tensor]) -> Tensor:
    dims = node.attributes.integers("dims")
    return function(operand, dims, keepdim=node.attributes.flag("keepdim"))


def _count(node: Node, operand: Tensor) -> int:
    return math.prod(operand.shape[dim] for dim in node.attributes.integers("dims"))
