"""The matrix product the planner knows."""

from __future__ import annotations

from fusegen.ir.graph import Attributes, Node, TensorType
from fusegen.ops import build
from fusegen.ops.inference import Accepts, require, show
from fusegen.ops.parameters import INPUT, OTHER
from fusegen.ops.record import OperationError, Product


def _infer(types: tuple[TensorType, ...], _: Attributes) -> TensorType:
    left, right = types
    if left.dtype is not right.dtype:
        raise OperationError(
            f"a matrix product needs equal dtypes, and got {left} and {right}",
            "convert one of them with to(x, dtype)",
        )
    require(left, Accepts.NUMBERS)
    same_batch = left.shape[:-2] == right.shape[:-2]
    if not same_batch or left.shape[-1] != right.shape[-2]:
        raise OperationError(
            f"shapes {show(left.shape)} and {show(right.shape)} cannot be multiplied: "
            f"{left.shape[-1]} columns against {right.shape[-2]} rows",
            "the last size of the first must equal the last but one of the second",
        )
    return TensorType((*left.shape[:-1], right.shape[-1]), left.dtype)


def _gradient(node: Node, gradient: Node) -> tuple[Node, Node]:
    left, right = node.operands
    return (
        build.matrix_product(gradient, build.transpose(right)),
        build.matrix_product(build.transpose(left), gradient),
    )


MATRIX_PRODUCT = Product(
    "matmul",
    parameters=(INPUT, OTHER),
    infer=_infer,
    twin="torch.matmul({input}, {other})",
    summary="The product of matrices, batch by batch.",
    gradient=_gradient,
)

RECORDS = (MATRIX_PRODUCT,)
