"""Short functions that build nodes of the primitive operations, for decompositions and gradients.

The records of the primitive operations import this module for their gradients, and it imports
theirs: neither uses the other before both are loaded.
"""

from __future__ import annotations

from collections.abc import Sequence

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Node, Shape, TensorType
from fusegen.ir.integers import ONE, ZERO, Integer, IntegerLike, product
from fusegen.ops.construct import Operand, call, constant, is_number, size_value
from fusegen.ops.inference import reduced_shape, shape_of
from fusegen.ops.pointwise import activations, arithmetic, casting, functions, logic
from fusegen.ops.primitive import products, reductions, views
from fusegen.ops.record import CONSTANT, Reduction

__all__ = ["call", "constant", "is_number", "size_value"]


def cast(x: Node, dtype: DType) -> Node:
    """`x` in another dtype; `x` itself if it has it."""
    return x if x.dtype is dtype else call(casting.CAST, (x,), dtype=dtype)


def as_result(x: Node, dtype: DType) -> Node:
    """The end of an operation: `x` as `dtype`, not rounded before it is stored."""
    narrows = dtype.is_float and dtype is not x.dtype and dtype.compute is x.dtype
    return call(casting.NARROW, (x,), dtype=dtype) if narrows else cast(x, dtype)


def to_compute(x: Node) -> Node:
    """`x` in the type its arithmetic is done in."""
    return cast(x, x.dtype.compute)


def add(x: Operand, y: Operand) -> Node:
    """x + y"""
    return call(arithmetic.ADD, (x, y))


def sub(x: Operand, y: Operand) -> Node:
    """x - y"""
    return call(arithmetic.SUB, (x, y))


def mul(x: Operand, y: Operand) -> Node:
    """x * y"""
    return call(arithmetic.MUL, (x, y))


def div(x: Operand, y: Operand) -> Node:
    """x / y"""
    return call(arithmetic.DIVIDE, (x, y))


def power(x: Operand, y: Operand) -> Node:
    """x ** y"""
    return call(arithmetic.POWER, (x, y))


def minimum(x: Operand, y: Operand) -> Node:
    """The lesser; NaN if either is."""
    return call(arithmetic.MINIMUM, (x, y))


def maximum(x: Operand, y: Operand) -> Node:
    """The greater; NaN if either is."""
    return call(arithmetic.MAXIMUM, (x, y))


def eq(x: Operand, y: Operand) -> Node:
    """x == y"""
    return call(logic.EQ, (x, y))


def ne(x: Operand, y: Operand) -> Node:
    """x != y"""
    return call(logic.NE, (x, y))


def lt(x: Operand, y: Operand) -> Node:
    """x < y"""
    return call(logic.LT, (x, y))


def le(x: Operand, y: Operand) -> Node:
    """x <= y"""
    return call(logic.LE, (x, y))


def gt(x: Operand, y: Operand) -> Node:
    """x > y"""
    return call(logic.GT, (x, y))


def ge(x: Operand, y: Operand) -> Node:
    """x >= y"""
    return call(logic.GE, (x, y))


def both(x: Node, y: Node) -> Node:
    """Whether two truth values hold."""
    return call(logic.LOGICAL_AND, (x, y))


def either(x: Node, y: Node) -> Node:
    """Whether one of two truth values holds."""
    return call(logic.LOGICAL_OR, (x, y))


def where(condition: Node, x: Operand, y: Operand) -> Node:
    """x where the condition holds, else y."""
    return call(logic.WHERE, (condition, x, y))


def neg(x: Node) -> Node:
    """-x"""
    return call(arithmetic.NEG, (x,))


def sign(x: Node) -> Node:
    """-1, 0 or 1."""
    return call(arithmetic.SIGN, (x,))


def tanh(x: Node) -> Node:
    """The hyperbolic tangent."""
    return call(functions.TANH, (x,))


def sigmoid(x: Node) -> Node:
    """1 / (1 + exp(-x))"""
    return call(activations.SIGMOID, (x,))


def sine(x: Node) -> Node:
    """The sine."""
    return call(functions.SIN, (x,))


def cosine(x: Node) -> Node:
    """The cosine."""
    return call(functions.COS, (x,))


def gelu_slope(x: Node) -> Node:
    """The slope of the exact gelu."""
    return call(activations.GELU_SLOPE, (x,))


def as_stored(x: Node) -> Node:
    """`x` as the forward has stored it, for comparing it with what was made from it."""
    return call(casting.AS_STORED, (x,), dtype=x.dtype)


def absolute(x: Node) -> Node:
    """|x|"""
    return call(arithmetic.ABS, (x,))


def square(x: Node) -> Node:
    """x * x"""
    return call(arithmetic.SQUARE, (x,))


def sqrt(x: Node) -> Node:
    """The square root."""
    return call(arithmetic.SQRT, (x,))


def rsqrt(x: Node) -> Node:
    """1 / sqrt(x)"""
    return call(arithmetic.RSQRT, (x,))


def reciprocal(x: Node) -> Node:
    """1 / x"""
    return call(arithmetic.RECIPROCAL, (x,))


def exp(x: Node) -> Node:
    """The exponential."""
    return call(functions.EXP, (x,))


def log(x: Node) -> Node:
    """The natural logarithm."""
    return call(functions.LOG, (x,))


def reduce(record: Reduction, x: Node, dims: Sequence[int], keepdim: bool = False) -> Node:
    """`x` reduced over `dims`, which are sorted and not negative; a scalar as a vector of one."""
    if not x.type.rank:
        return call(record, (reshape(x, (1,)),), dims=(0,), keepdim=False)
    return call(record, (x,), dims=tuple(dims), keepdim=keepdim)


def total(x: Node, dims: Sequence[int], keepdim: bool = False) -> Node:
    """The sum in x's dtype."""
    return reduce(reductions.SUM, x, dims, keepdim)


def amax(x: Node, dims: Sequence[int], keepdim: bool = False) -> Node:
    """The greatest element."""
    return reduce(reductions.AMAX, x, dims, keepdim)


def centre(x: Node, dims: Sequence[int], keepdim: bool = False) -> Node:
    """The mean from which deviations are taken: exact where all elements are equal."""
    return reduce(reductions.MEAN, x, dims, keepdim)


def squared_deviations(x: Node, dims: Sequence[int], keepdim: bool = False) -> Node:
    """The sum of squared deviations from the mean."""
    return reduce(reductions.MOMENTS, x, dims, keepdim)


def count(shape: Shape, dims: Sequence[int]) -> Integer:
    """How many elements a reduction over `dims` combines."""
    return product(shape[dim] for dim in dims)


def mean(x: Node, dims: Sequence[int], keepdim: bool = False) -> Node:
    """The mean in x's dtype."""
    return div(total(x, dims, keepdim), count(x.shape, dims))


def permute(x: Node, order: Sequence[int]) -> Node:
    """The dims in another order; `x` itself if the order is the same."""
    if tuple(order) == tuple(range(x.type.rank)):
        return x
    return call(views.PERMUTE, (x,), dims=tuple(order))


def transpose(x: Node) -> Node:
    """The last two dims exchanged."""
    rank = x.type.rank
    return permute(x, (*range(rank - 2), rank - 1, rank - 2))


def expand(x: Node, shape: Sequence[IntegerLike]) -> Node:
    """`x` broadcast to a complete shape; `x` itself if it has it."""
    complete = shape_of(shape)
    return x if x.shape == complete else call(views.EXPAND, (x,), shape=complete)


def reshape(x: Node, shape: Sequence[IntegerLike]) -> Node:
    """`x` in another complete shape; `x` itself if it has it."""
    complete = shape_of(shape)
    return x if x.shape == complete else call(views.RESHAPE, (x,), shape=complete)


def take(x: Node, dim: int, start: IntegerLike, stop: IntegerLike, step: int = 1) -> Node:
    """The elements from `start` to below `stop` of one dim, which must lie inside it."""
    first, end = Integer.of(start), Integer.of(stop)
    if first == ZERO and end == x.shape[dim] and step == 1:
        return x
    return call(views.SLICE, (x,), dim=dim, start=first, stop=end, step=step)


def zeros(shape: Sequence[IntegerLike], dtype: DType) -> Node:
    """0 everywhere."""
    zero = call(casting.CAST, (constant(0.0, dtype),), dtype=dtype)
    return reshape(expand(zero, shape or (1,)), shape)


def is_zero(x: Node) -> bool:
    """Whether `x` is surely 0 everywhere: what `zeros` made, seen through views."""
    while x.operation in (views.EXPAND, views.RESHAPE, casting.CAST):
        (x,) = x.operands
    return x.operation is CONSTANT and x.attributes["value"] == 0


def concatenate(tensors: Sequence[Node], dim: int) -> Node:
    """Tensors of one dtype joined along a dim."""
    return tensors[0] if len(tensors) == 1 else call(views.CONCATENATION, tensors, dim=dim)


def matrix_product(x: Node, y: Node) -> Node:
    """(*batch, M, K) by (*batch, K, N)."""
    return call(products.MATRIX_PRODUCT, (x, y))


def per_channel(x: Node, vector: Node, dim: int = 1) -> Node:
    """A vector shaped so that it broadcasts along `dim` of `x`."""
    shape: list[IntegerLike] = [1] * (x.type.rank - dim)
    shape[0] = vector.shape[0]
    return reshape(vector, shape)


def without_dims(x: Node, dims: tuple[int, ...]) -> Node:
    """`x` with dims of size 1 taken out."""
    return reshape(x, reduced_shape(x.shape, dims, keepdim=False))


def restore(reduced: Node, x: Node, dims: Sequence[int]) -> Node:
    """A value for each result of a reduction of `x` over `dims`, as one for each element of `x`."""
    return expand(reshape(reduced, reduced_shape(x.shape, tuple(dims), keepdim=True)), x.shape)


def sum_to(x: Node, type: TensorType) -> Node:
    """A gradient of a broadcast and promoted operand as one of the operand: summed over the dims
    along which it was repeated, in its dtype."""
    added = x.type.rank - type.rank
    dims = (
        *range(added),
        *(
            added + dim
            for dim, size in enumerate(type.shape)
            if size == ONE and x.shape[added + dim] != ONE
        ),
    )
    summed = total(to_compute(x), dims, keepdim=True) if dims else x
    return as_result(reshape(summed, type.shape), type.dtype)
