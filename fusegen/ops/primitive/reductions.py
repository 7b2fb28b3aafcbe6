"""The reductions the planner knows: each combines elements by one monoid."""

from __future__ import annotations

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Attributes, TensorType
from fusegen.ops.inference import Accepts, reduced_shape, require
from fusegen.ops.parameters import INPUT, KEEPDIM, dims
from fusegen.ops.record import Inference, Monoid, Reduction


def _inference(accepts: Accepts, result: DType | None) -> Inference:
    def infer(types: tuple[TensorType, ...], attributes: Attributes) -> TensorType:
        (operand,) = types
        require(operand, accepts)
        shape = reduced_shape(
            operand.shape, attributes.integers("dims"), attributes.flag("keepdim")
        )
        return TensorType(shape, result or operand.dtype)

    return infer


def _reduction(
    name: str,
    monoid: Monoid,
    twin: str,
    summary: str,
    accepts: Accepts = Accepts.ANY,
    result: DType | None = None,
) -> Reduction:
    return Reduction(
        name,
        parameters=(INPUT, dims("dims"), KEEPDIM),
        infer=_inference(accepts, result),
        twin=twin,
        summary=summary,
        monoid=monoid,
    )


SUM = _reduction(
    "sum",
    Monoid.SUM,
    "torch.sum({input}, {dims}, keepdim={keepdim})",
    "The sum, in the operand's dtype.",
    Accepts.SUMMANDS,
)
PRODUCT = _reduction(
    "prod",
    Monoid.PRODUCT,
    "torch.prod({input}, {dims:only}, keepdim={keepdim})",
    "The product over one dim, in the operand's dtype.",
    Accepts.SUMMANDS,
)
AMAX = _reduction(
    "amax",
    Monoid.MAXIMUM,
    "torch.amax({input}, {dims}, keepdim={keepdim})",
    "The greatest element; NaN if any is.",
)
AMIN = _reduction(
    "amin",
    Monoid.MINIMUM,
    "torch.amin({input}, {dims}, keepdim={keepdim})",
    "The least element; NaN if any is.",
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
)
MEAN = _reduction(
    "centre",
    Monoid.MEAN,
    "torch.mean({input}, {dims}, keepdim={keepdim})",
    "The mean that deviations are taken from: exact where all elements are equal, NaN where one is "
    "infinite.",
    Accepts.FLOATS,
)
MOMENTS = _reduction(
    "squared_deviations",
    Monoid.MOMENTS,
    "torch.sum(({input} - torch.mean({input}, {dims}, keepdim=True)) ** 2, {dims}, "
    "keepdim={keepdim})",
    "The sum of squared deviations from the mean.",
    Accepts.FLOATS,
)

RECORDS = (SUM, PRODUCT, AMAX, AMIN, ANY, ALL, ARGMAX, ARGMIN, LOG_SUM_EXP, MEAN, MOMENTS)
