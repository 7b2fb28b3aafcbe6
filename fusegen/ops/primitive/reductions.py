"""The reductions the planner knows: each combines elements by one monoid."""

from __future__ import annotations

from collections.abc import Callable

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Attributes, Node, TensorType
from fusegen.ops import build
from fusegen.ops.inference import Accepts, reduced_shape, require
from fusegen.ops.parameters import INPUT, KEEPDIM, dims
from fusegen.ops.record import Gradient, Inference, Monoid, Reduction


def _inference(accepts: Accepts, result: DType | None) -> Inference:
    def infer(types: tuple[TensorType, ...], attributes: Attributes) -> TensorType:
        (operand,) = types
        require(operand, accepts)
        shape = reduced_shape(
            operand.shape, attributes.integers("dims"), attributes.flag("keepdim")
        )
        return TensorType(shape, result or operand.dtype)

    return infer


def _of_elements(slope: Callable[[Node, Node, Node], Node]) -> Gradient:
    """`slope` makes the gradient of the operand's elements from the operand, the result and the
    result's gradient, the latter two repeated for each element."""

    def gradient_of(node: Node, gradient: Node) -> tuple[Node]:
        (x,) = node.operands
        dims = node.attributes.integers("dims")
        return (slope(x, build.restore(node, x, dims), build.restore(gradient, x, dims)),)

    return gradient_of


def _mean(node: Node, gradient: Node) -> tuple[Node]:
    (x,) = node.operands
    dims = node.attributes.integers("dims")
    return (build.restore(build.div(gradient, build.count(x.shape, dims)), x, dims),)


def _moments(node: Node, gradient: Node) -> tuple[Node]:
    """Twice the deviations; that the mean depends on the elements too cancels out."""
    (x,) = node.operands
    dims = node.attributes.integers("dims")
    deviations = build.sub(x, build.centre(x, dims, keepdim=True))
    return (build.mul(build.restore(build.mul(gradient, 2), x, dims), deviations),)


def _extreme(node: Node, gradient: Node) -> tuple[Node]:
    """Equal parts for all elements that are the extreme, which has been rounded where it was
    stored; NaN for all of them if it is NaN."""
    (x,) = node.operands
    dims = node.attributes.integers("dims")
    reached = build.eq(build.as_stored(x), build.restore(build.as_stored(node), x, dims))
    chosen = build.cast(reached, x.dtype.compute)
    parts = build.div(build.restore(gradient, x, dims), build.total(chosen, dims, keepdim=True))
    return (build.mul(parts, chosen),)


def _counted(chosen: Node, x: Node, dims: tuple[int, ...]) -> Node:
    """How many elements of `x` are chosen."""
    return build.total(build.cast(chosen, x.dtype.compute), dims, keepdim=True)


def _product(node: Node, gradient: Node) -> tuple[Node]:
    """The product of the other elements: the quotient by the element, unless one of them is 0;
    beside a 0 it is 0, or NaN where they are not all finite."""
    (x,) = node.operands
    dims = node.attributes.integers("dims")
    zero, special = build.eq(x, 0), build.ne(build.mul(x, 0), 0)
    zeros, specials = _counted(zero, x, dims), _counted(special, x, dims)
    others = build.reduce(PRODUCT, build.where(zero, 1, x), dims, keepdim=True)
    others_special = build.gt(specials, build.cast(special, x.dtype.compute))
    beside = build.where(others_special, build.mul(others, 0), 0)
    quotient = build.div(build.restore(node, x, dims), x)
    alone = build.both(zero, build.eq(zeros, 1))
    slope = build.where(alone, others, build.where(build.gt(zeros, 0), beside, quotient))
    return (build.mul(build.restore(gradient, x, dims), slope),)


def _product_of_all(node: Node, gradient: Node) -> tuple[Node]:
    """Where there are two zeros, PyTorch's gradient is 0, whatever the other elements are."""
    (x,) = node.operands
    zeros = _counted(build.eq(x, 0), x, node.attributes.integers("dims"))
    (of_one,) = _product(node, gradient)
    return (build.where(build.gt(zeros, 1), 0, of_one),)


def _reduction(
    name: str,
    monoid: Monoid,
    twin: str,
    summary: str,
    accepts: Accepts = Accepts.ANY,
    result: DType | None = None,
    gradient: Gradient | None = None,
) -> Reduction:
    return Reduction(
        name,
        parameters=(INPUT, dims("dims"), KEEPDIM),
        infer=_inference(accepts, result),
        twin=twin,
        summary=summary,
        monoid=monoid,
        gradient=gradient,
    )


SUM = _reduction(
    "sum",
    Monoid.SUM,
    "torch.sum({input}, {dims}, keepdim={keepdim})",
    "The sum, in the operand's dtype.",
    Accepts.SUMMANDS,
    gradient=_of_elements(lambda x, y, gradient: gradient),
)
PRODUCT = _reduction(
    "prod",
    Monoid.PRODUCT,
    "torch.prod({input}, {dims:only}, keepdim={keepdim})",
    "The product over one dim, in the operand's dtype.",
    Accepts.SUMMANDS,
    gradient=_product,
)
PRODUCT_OF_ALL = _reduction(
    "prod_of_all",
    Monoid.PRODUCT,
    "torch.prod({input}, {dims:only}, keepdim={keepdim})",
    "The product of a whole tensor's elements, which PyTorch differentiates in another way.",
    Accepts.SUMMANDS,
    gradient=_product_of_all,
)
AMAX = _reduction(
    "amax",
    Monoid.MAXIMUM,
    "torch.amax({input}, {dims}, keepdim={keepdim})",
    "The greatest element; NaN if any is.",
    gradient=_extreme,
)
AMIN = _reduction(
    "amin",
    Monoid.MINIMUM,
    "torch.amin({input}, {dims}, keepdim={keepdim})",
    "The least element; NaN if any is.",
    gradient=_extreme,
)
ANY = _reduction(
    "any",
    Monoid.ANY,
    "torch.any({input}, {dims}, keepdim={keepdim})",
    "Whether any truth value holds.",
    Accepts.TRUTH,
)
ALL = _reduction(
    "all",
    Monoid.ALL,
    "torch.all({input}, {dims}, keepdim={keepdim})",
    "Whether every truth value holds.",
    Accepts.TRUTH,
)
ARGMAX = _reduction(
    "argmax",
    Monoid.ARGMAX,
    "torch.argmax({input}, {dims:only}, keepdim={keepdim})",
    "Where the greatest element stands in one dim.",
    Accepts.NUMBERS,
    DType.INT64,
)
ARGMIN = _reduction(
    "argmin",
    Monoid.ARGMIN,
    "torch.argmin({input}, {dims:only}, keepdim={keepdim})",
    "Where the least element stands in one dim.",
    Accepts.NUMBERS,
    DType.INT64,
)
LOG_SUM_EXP = _reduction(
    "logsumexp",
    Monoid.LOG_SUM_EXP,
    "torch.logsumexp({input}, {dims}, keepdim={keepdim})",
    "The logarithm of the sum of exponentials, shifted by the greatest element.",
    Accepts.FLOATS,
    gradient=_of_elements(lambda x, y, gradient: build.mul(gradient, build.exp(build.sub(x, y)))),
)
MEAN = _reduction(
    "centre",
    Monoid.MEAN,
    "torch.mean({input}, {dims}, keepdim={keepdim})",
    "The mean that deviations are taken from: exact where all elements are equal, NaN where one is "
    "infinite.",
    Accepts.FLOATS,
    gradient=_mean,
)
MOMENTS = _reduction(
    "squared_deviations",
    Monoid.MOMENTS,
    "torch.sum(({input} - torch.mean({input}, {dims}, keepdim=True)) ** 2, {dims}, "
    "keepdim={keepdim})",
    "The sum of squared deviations from the mean.",
    Accepts.FLOATS,
    gradient=_moments,
)

RECORDS = (
    SUM,
    PRODUCT,
    PRODUCT_OF_ALL,
    AMAX,
    AMIN,
    ANY,
    ALL,
    ARGMAX,
    ARGMIN,
    LOG_SUM_EXP,
    MEAN,
    MOMENTS,
)
