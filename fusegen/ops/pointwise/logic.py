"""Comparison, logical and bitwise operators, selection, and classes of floating-point numbers."""

from __future__ import annotations

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Attributes, Node, TensorType
from fusegen.ops import build
from fusegen.ops.inference import Accepts, broadcast, result_dtype
from fusegen.ops.parameters import INPUT, OTHER, tensor
from fusegen.ops.pointwise.define import binary, unary
from fusegen.ops.record import OperationError, Pointwise


def _comparison(name: str, sign: str, words: str) -> Pointwise:
    return binary(
        name,
        f"{{input}} {sign} {{other}}",
        f"{{input:operand}} {sign} {{other:operand}}",
        f"Whether `input` is {words} `other`, elementwise.",
        result=DType.BOOL,
    )


EQ = _comparison("eq", "==", "equal to")
NE = _comparison("ne", "!=", "unequal to")
LT = _comparison("lt", "<", "less than")
LE = _comparison("le", "<=", "less than or equal to")
GT = _comparison("gt", ">", "greater than")
GE = _comparison("ge", ">=", "greater than or equal to")

LOGICAL_AND = binary(
    "logical_and",
    "({input} != 0) && ({other} != 0)",
    "torch.logical_and({input}, {other})",
    "Whether both are true (not zero).",
    result=DType.BOOL,
)
LOGICAL_OR = binary(
    "logical_or",
    "({input} != 0) || ({other} != 0)",
    "torch.logical_or({input}, {other})",
    "Whether either is true (not zero).",
    result=DType.BOOL,
)
LOGICAL_XOR = binary(
    "logical_xor",
    "({input} != 0) != ({other} != 0)",
    "torch.logical_xor({input}, {other})",
    "Whether exactly one is true (not zero).",
    result=DType.BOOL,
)
LOGICAL_NOT = unary(
    "logical_not",
    "{input} == 0",
    "torch.logical_not({input})",
    "Whether it is false (zero).",
    accepts=Accepts.ANY,
    result=DType.BOOL,
)

BITWISE_AND = binary(
    "bitwise_and",
    "{input} & {other}",
    "{input:operand} & {other:operand}",
    "The bits set in both.",
    accepts=Accepts.DISCRETE,
)
BITWISE_OR = binary(
    "bitwise_or",
    "{input} | {other}",
    "{input:operand} | {other:operand}",
    "The bits set in either.",
    accepts=Accepts.DISCRETE,
)
BITWISE_XOR = binary(
    "bitwise_xor",
    "{input} ^ {other}",
    "{input:operand} ^ {other:operand}",
    "The bits set in exactly one.",
    accepts=Accepts.DISCRETE,
)
BITWISE_NOT = unary(
    "bitwise_not",
    "fusegen::bitwise_not({input})",
    "~{input:operand}",
    "The bits flipped; for truth values, `not`.",
    accepts=Accepts.DISCRETE,
)

ISNAN = unary(
    "isnan",
    "fusegen::is_nan({input})",
    "torch.isnan({input})",
    "Whether it is NaN.",
    accepts=Accepts.ANY,
    result=DType.BOOL,
)
ISINF = unary(
    "isinf",
    "fusegen::is_infinite({input})",
    "torch.isinf({input})",
    "Whether it is an infinity.",
    accepts=Accepts.ANY,
    result=DType.BOOL,
)
ISFINITE = unary(
    "isfinite",
    "fusegen::is_finite({input})",
    "torch.isfinite({input})",
    "Whether it is neither an infinity nor NaN.",
    accepts=Accepts.ANY,
    result=DType.BOOL,
)


def _infer_where(types: tuple[TensorType, ...], _: Attributes) -> TensorType:
    condition, *values = types
    if condition.dtype is not DType.BOOL:
        raise OperationError(
            f"where needs a condition of dtype bool, and got {condition}",
            "compare it first: where(x != 0, ...)",
        )
    return TensorType(broadcast([t.shape for t in types]), result_dtype(values))


def _where(node: Node, gradient: Node) -> tuple[Node | None, ...]:
    """Chosen, not multiplied: a NaN of the branch not taken stays out."""
    condition = node.operands[0]
    return None, build.where(condition, gradient, 0), build.where(condition, 0, gradient)


WHERE = Pointwise(
    "where",
    parameters=(tensor("condition"), INPUT, OTHER),
    infer=_infer_where,
    twin="torch.where({condition}, {input:number}, {other:number})",
    summary="`input` where the condition holds, else `other`.",
    cuda="{condition} ? {input} : {other}",
    exact=True,
    gradient=_where,
)

RECORDS = (
    EQ,
    NE,
    LT,
    LE,
    GT,
    GE,
    LOGICAL_AND,
    LOGICAL_OR,
    LOGICAL_XOR,
    LOGICAL_NOT,
    BITWISE_AND,
    BITWISE_OR,
    BITWISE_XOR,
    BITWISE_NOT,
    ISNAN,
    ISINF,
    ISFINITE,
    WHERE,
)
