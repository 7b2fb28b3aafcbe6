"""PyTorch's reductions, written with the primitive ones.

Sums of 16-bit floats are taken in float32 and rounded once, at the end; sums of integers and
truth values are int64.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from fusegen.ir.dtypes import DType, Kind
from fusegen.ir.graph import Attributes, Node
from fusegen.ir.integers import ZERO, Integer
from fusegen.ops import build
from fusegen.ops.composite.define import composite
from fusegen.ops.inference import (
    Accepts,
    normal_dims,
    require,
    show,
)
from fusegen.ops.parameters import DTYPE, INPUT, KEEPDIM, dims, flag, integer, number
from fusegen.ops.primitive import reductions as primitive
from fusegen.ops.record import OperationError, Reduction

DIMS = dims("dim", None)


def _to_sum(x: Node, attributes: Attributes) -> tuple[Node, DType]:
    """`x` in the dtype it is summed in, and the dtype of the result."""
    wanted = attributes["dtype"]
    if isinstance(wanted, DType):
        x = build.cast(x, wanted)
    elif not x.dtype.is_float:
        x = build.cast(x, DType.INT64)
    return build.to_compute(x), x.dtype


def _arguments(x: Node, attributes: Attributes) -> tuple[tuple[int, ...], bool]:
    return normal_dims(attributes["dim"], x.type.rank), attributes.flag("keepdim")


def _refuse_no_dims(attributes: Attributes) -> None:
    """PyTorch's reductions disagree about an empty list of dims: most take it for all dims; for
    those that don't, it is refused."""
    if attributes["dim"] == ():
        raise OperationError("there is no dim to reduce in an empty list", "leave dim out for all")


def _refuse_empty(x: Node, over: tuple[int, ...]) -> None:
    if any(x.shape[dim] == ZERO for dim in over):
        raise OperationError(f"an empty tensor {show(x.shape)} has no greatest or least element")


def _sum(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    x, dtype = _to_sum(operands[0], attributes)
    over, keepdim = _arguments(x, attributes)
    return build.as_result(build.total(x, over, keepdim), dtype)


SUM = composite(
    "sum",
    (INPUT, DIMS, KEEPDIM, DTYPE),
    _sum,
    "torch.sum({input}, {dim}, keepdim={keepdim}, dtype={dtype})",
    "The sum; that of integers is int64.",
)


def _mean(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    wanted = attributes["dtype"]
    x = build.cast(operands[0], wanted) if isinstance(wanted, DType) else operands[0]
    require(x.type, Accepts.FLOATS)
    over, keepdim = _arguments(x, attributes)
    return build.as_result(build.mean(build.to_compute(x), over, keepdim), x.dtype)


MEAN = composite(
    "mean",
    (INPUT, DIMS, KEEPDIM, DTYPE),
    _mean,
    "torch.mean({input}, {dim}, keepdim={keepdim}, dtype={dtype})",
    "The mean.",
)


def _extreme(record: Reduction) -> Callable[[tuple[Node, ...], Attributes], Node]:
    def decompose(operands: tuple[Node, ...], attributes: Attributes) -> Node:
        over, keepdim = _arguments(operands[0], attributes)
        _refuse_empty(operands[0], over)
        return build.reduce(record, operands[0], over, keepdim)

    return decompose


AMAX = composite(
    "amax",
    (INPUT, dims("dim", ()), KEEPDIM),
    _extreme(primitive.AMAX),
    "torch.amax({input}, {dim}, keepdim={keepdim})",
    "The greatest element; NaN if any is.",
)
AMIN = composite(
    "amin",
    (INPUT, dims("dim", ()), KEEPDIM),
    _extreme(primitive.AMIN),
    "torch.amin({input}, {dim}, keepdim={keepdim})",
    "The least element; NaN if any is.",
)


def _flattened(x: Node, attributes: Attributes) -> tuple[Node, int]:
    """The operand and the one dim to reduce: without a dim, the row-major flattened operand."""
    dim = attributes["dim"]
    if isinstance(dim, int) and x.type.rank:
        return x, normal_dims(dim, x.type.rank)[0]
    normal_dims(dim, x.type.rank)
    return build.reshape(x, (x.type.count,)), 0


def _over_one_dim(record: Reduction, x: Node, attributes: Attributes) -> Node:
    flat, dim = _flattened(x, attributes)
    keepdim = bool(attributes.get("keepdim"))
    result = build.reduce(record, flat, (dim,), keepdim)
    if flat is x:
        return result
    return build.reshape(result, (1,) * x.type.rank if keepdim else ())


def _prod(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    x, dtype = _to_sum(operands[0], attributes)
    record = primitive.PRODUCT_OF_ALL if attributes["dim"] is None else primitive.PRODUCT
    return build.as_result(_over_one_dim(record, x, attributes), dtype)


PROD = composite(
    "prod",
    (INPUT, integer("dim", None), KEEPDIM, DTYPE),
    _prod,
    "torch.prod({input}, dim={dim}, keepdim={keepdim}, dtype={dtype})",
    "The product over one dim or all; that of integers is int64.",
)


def _position(record: Reduction) -> Callable[[tuple[Node, ...], Attributes], Node]:
    def decompose(operands: tuple[Node, ...], attributes: Attributes) -> Node:
        (x,) = operands
        _refuse_empty(x, normal_dims(attributes["dim"], x.type.rank))
        return _over_one_dim(record, x, attributes)

    return decompose


ARGMAX = composite(
    "argmax",
    (INPUT, integer("dim", None), KEEPDIM),
    _position(primitive.ARGMAX),
    "torch.argmax({input}, {dim}, keepdim={keepdim})",
    "Where the greatest element stands, the first of equals; without `dim`, in all of them.",
)
ARGMIN = composite(
    "argmin",
    (INPUT, integer("dim", None), KEEPDIM),
    _position(primitive.ARGMIN),
    "torch.argmin({input}, {dim}, keepdim={keepdim})",
    "Where the least element stands, the first of equals; without `dim`, in all of them.",
)


def _truth(record: Reduction) -> Callable[[tuple[Node, ...], Attributes], Node]:
    def decompose(operands: tuple[Node, ...], attributes: Attributes) -> Node:
        (x,) = operands
        _refuse_no_dims(attributes)
        over, keepdim = _arguments(x, attributes)
        truth = x if x.dtype.kind is Kind.BOOL else build.ne(x, 0)
        result = build.reduce(record, truth, over, keepdim)
        return build.cast(result, DType.UINT8) if x.dtype is DType.UINT8 else result

    return decompose


ANY = composite(
    "any",
    (INPUT, DIMS, KEEPDIM),
    _truth(primitive.ANY),
    "torch.any({input}, {dim}, keepdim={keepdim})",
    "Whether any element is true (not zero).",
)
ALL = composite(
    "all",
    (INPUT, DIMS, KEEPDIM),
    _truth(primitive.ALL),
    "torch.all({input}, {dim}, keepdim={keepdim})",
    "Whether every element is true (not zero).",
)


def degrees_of_freedom(
    count: Integer, correction: int | float, dtype: DType
) -> Node | float | Integer:
    """`max(0, count - correction)`."""
    if count.constant is not None:
        return max(0.0, float(count.constant - correction))
    if correction == 0:
        return count  # with a correction, a count of 0 at run time would make it negative
    return build.maximum(build.sub(build.cast(build.size_value(count), dtype), correction), 0.0)


def _degrees(x: Node, attributes: Attributes) -> Node | float | Integer:
    """What a variance divides by."""
    unbiased, correction = attributes.flag("unbiased"), attributes["correction"]
    if correction is None:
        correction = 1 if unbiased else 0
    elif not unbiased:
        raise OperationError("unbiased and correction say the same thing", "give only one of them")
    assert isinstance(correction, (int, float))
    over, _ = _arguments(x, attributes)
    return degrees_of_freedom(build.count(x.shape, over), correction, x.dtype.compute)


def _variance(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    """The variance in the compute type, by squared deviations from the mean."""
    (x,) = operands
    require(x.type, Accepts.FLOATS)
    over, keepdim = _arguments(x, attributes)
    deviations = build.squared_deviations(build.to_compute(x), over, keepdim)
    return build.div(deviations, _degrees(x, attributes))


def _var(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    return build.as_result(_variance(operands, attributes), operands[0].dtype)


def _std(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    return build.as_result(build.sqrt(_variance(operands, attributes)), operands[0].dtype)


def _std_gradient(node: Node, gradient: Node) -> tuple[Node]:
    """That of the variance over twice the deviation; 0 where all elements are equal."""
    x = build.to_compute(node.operands[0])
    over, _ = _arguments(x, node.attributes)
    deviation = build.to_compute(node)
    of_variance = build.where(
        build.eq(deviation, 0), 0, build.div(build.to_compute(gradient), deviation)
    )
    scale = build.div(of_variance, _degrees(x, node.attributes))
    return (
        build.mul(build.restore(scale, x, over), build.sub(x, build.centre(x, over, keepdim=True))),
    )


_SPREAD = (INPUT, DIMS, flag("unbiased", True), KEEPDIM, number("correction", None))
VAR = composite(
    "var",
    _SPREAD,
    _var,
    "torch.var({input}, {dim}, unbiased={unbiased}, keepdim={keepdim}, correction={correction})",
    "The variance: squared deviations over the count less `correction`, which is 1 without one.",
)
STD = composite(
    "std",
    _SPREAD,
    _std,
    "torch.std({input}, {dim}, unbiased={unbiased}, keepdim={keepdim}, correction={correction})",
    "The square root of the variance.",
    _std_gradient,
)


def _norm(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    wanted = attributes["dtype"]
    x = build.cast(operands[0], wanted) if isinstance(wanted, DType) else operands[0]
    require(x.type, Accepts.FLOATS)
    over, keepdim = _arguments(x, attributes)
    wide, p = build.to_compute(x), attributes.number("p")
    if abs(p) == inf:
        _refuse_empty(x, over)
        extreme = primitive.AMAX if p > 0 else primitive.AMIN
        result = build.reduce(extreme, build.absolute(wide), over, keepdim)
    elif p == 2:
        result = build.sqrt(build.total(build.square(wide), over, keepdim))
    elif p == 1:
        result = build.total(build.absolute(wide), over, keepdim)
    elif p == 0:
        result = build.total(build.cast(build.ne(wide, 0), wide.dtype), over, keepdim)
    else:
        powers = build.total(build.power(build.absolute(wide), p), over, keepdim)
        result = build.power(powers, 1 / p)
    return build.as_result(result, x.dtype)


def _norm_gradient(node: Node, gradient: Node) -> tuple[Node | None]:
    """That of a norm that is 0 is 0; a count of elements, which p = 0 is, has none. Which of them
    are still NaN behind an infinite gradient is as in PyTorch."""
    wanted, p = node.attributes["dtype"], node.attributes.number("p")
    x = node.operands[0]
    x = build.cast(x, wanted) if isinstance(wanted, DType) else x
    over, _ = _arguments(x, node.attributes)
    if p == 0:
        return (None,)
    wide, size = build.to_compute(x), build.restore(build.to_compute(node), x, over)
    upstream = build.restore(build.to_compute(gradient), x, over)
    if p == 1:
        return (build.mul(upstream, build.sign(wide)),)
    if abs(p) == inf:
        extreme = build.restore(build.as_stored(node), x, over)
        stored = build.as_stored(x)
        # As PyTorch counts them: the gradient of a norm that is NaN is 0.
        reached = build.either(build.eq(build.absolute(stored), extreme), build.ne(stored, stored))
        chosen = build.cast(reached, wide.dtype)
        share = build.div(build.sign(wide), build.total(chosen, over, keepdim=True))
        return (build.mul(upstream, build.mul(chosen, share)),)
    vanishes = build.eq(size, 0)
    if p == 2:
        slope = build.div(wide, size)
    else:
        slope = build.mul(
            build.sign(wide), build.power(build.div(build.absolute(wide), size), p - 1)
        )
        vanishes = build.either(vanishes, build.eq(wide, 0)) if p < 1 else vanishes
    if p == 2 or p < 1:
        return (build.mul(upstream, build.where(vanishes, 0, slope)),)
    return (build.where(vanishes, 0, build.mul(upstream, slope)),)


NORM = composite(
    "norm",
    (INPUT, number("p", 2), DIMS, KEEPDIM, DTYPE),
    _norm,
    "torch.linalg.vector_norm({input}, {p}, {dim}, keepdim={keepdim}, dtype={dtype})",
    "The `p`-norm of the elements; `p` may be infinite.",
    _norm_gradient,
)


def _logsumexp(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    (x,) = operands
    _refuse_no_dims(attributes)
    x = x if x.dtype.is_float else build.cast(x, DType.FLOAT32)
    over, keepdim = _arguments(x, attributes)
    result = build.reduce(primitive.LOG_SUM_EXP, build.to_compute(x), over, keepdim)
    return build.as_result(result, x.dtype)


LOGSUMEXP = composite(
    "logsumexp",
    (INPUT, dims("dim"), KEEPDIM),
    _logsumexp,
    "torch.logsumexp({input}, {dim}, keepdim={keepdim})",
    "The logarithm of the sum of exponentials, without overflow.",
)


RECORDS = (
    SUM,
    MEAN,
    AMAX,
    AMIN,
    PROD,
    ARGMAX,
    ARGMIN,
    ANY,
    ALL,
    VAR,
    STD,
    NORM,
    LOGSUMEXP,
)
