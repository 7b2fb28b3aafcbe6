"""Matrix products with PyTorch's rules for ranks and batches."""

from __future__ import annotations

from fusegen.ir.graph import Attributes, Node
from fusegen.ir.integers import Integer, product
from fusegen.ops import build
from fusegen.ops.composite.define import composite
from fusegen.ops.inference import Accepts, broadcast, require, show
from fusegen.ops.operands import unpack
from fusegen.ops.parameters import BIAS, INPUT, OTHER, number, tensor
from fusegen.ops.record import OperationError


def _times_matrix(x: Node, matrix: Node) -> Node:
    """(*lead, K) by (K, N), the leading dims taken as the rows of one matrix."""
    lead = x.shape[:-1]
    rows = build.reshape(x, (product(lead), x.shape[-1]))
    return build.reshape(build.matrix_product(rows, matrix), (*lead, matrix.shape[-1]))


def _batched(x: Node, batch: tuple[Integer, ...]) -> Node:
    """A stack of matrices broadcast to `batch`, as one batch dim."""
    rows, columns = x.shape[-2:]
    return build.reshape(build.expand(x, (*batch, rows, columns)), (product(batch), rows, columns))


def _matmul(operands: tuple[Node, ...], _: Attributes) -> Node:
    x, y = operands
    if not x.type.rank or not y.type.rank:
        raise OperationError(
            f"a matrix product needs operands of rank 1 or more, and got {x.type} and {y.type}",
            "use * to scale by a number",
        )
    rows = y.shape[-2 if y.type.rank > 1 else 0]
    if x.shape[-1] != rows:
        raise OperationError(
            f"shapes {show(x.shape)} and {show(y.shape)} cannot be multiplied: "
            f"{x.shape[-1]} columns against {rows} rows",
            "the last size of the first must equal the last but one of the second",
        )
    if y.type.rank == 1:
        result = _matmul((x, build.reshape(y, (rows, 1))), Attributes())
        return build.reshape(result, result.shape[:-1])
    if y.type.rank == 2:
        return _times_matrix(x, y)
    if x.type.rank == 1:
        result = _matmul((build.reshape(x, (1, rows)), y), Attributes())
        return build.reshape(result, (*result.shape[:-2], result.shape[-1]))
    batch = broadcast((x.shape[:-2], y.shape[:-2]))
    result = build.matrix_product(_batched(x, batch), _batched(y, batch))
    return build.reshape(result, (*batch, *result.shape[-2:]))


MATMUL = composite(
    "matmul",
    (INPUT, OTHER),
    _matmul,
    "torch.matmul({input}, {other})",
    "The matrix product; leading dims are batches, which broadcast.",
)


def _require_rank(rank: int, **operands: Node) -> None:
    for name, operand in operands.items():
        if operand.type.rank != rank:
            raise OperationError(f"{name} must have rank {rank}, and is {operand.type}")


def _bmm(operands: tuple[Node, ...], _: Attributes) -> Node:
    x, y = operands
    _require_rank(3, input=x, mat2=y)
    if x.shape[0] != y.shape[0]:
        raise OperationError(
            f"bmm needs equal batches, and got {show(x.shape)} and {show(y.shape)}",
            "matmul broadcasts its batches",
        )
    return build.matrix_product(x, y)


BMM = composite(
    "bmm",
    (INPUT, tensor("mat2")),
    _bmm,
    "torch.bmm({input}, {mat2})",
    "The matrix product, batch by batch.",
)


def _plus_product(x: Node, result: Node, attributes: Attributes) -> Node:
    """`beta * x + alpha * result`, where a beta of 0 ignores x, NaN and all."""
    alpha, beta = attributes["alpha"], attributes["beta"]
    assert isinstance(alpha, (int, float)) and isinstance(beta, (int, float))
    if broadcast((x.shape, result.shape)) != result.shape:
        raise OperationError(
            f"shape {show(x.shape)} cannot be added to a product of shape {show(result.shape)}"
        )
    if x.dtype is not result.dtype:
        raise OperationError(f"input is {x.dtype.value}, and the product {result.dtype.value}")
    scaled = result if alpha == 1 else build.mul(result, alpha)
    if beta != 0:
        scaled = build.add(x if beta == 1 else build.mul(x, beta), scaled)
    if scaled.dtype is not result.dtype:
        require(result.type, Accepts.FLOATS)
    return scaled


def _addmm(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    x, left, right = operands
    _require_rank(2, mat1=left, mat2=right)
    return _plus_product(x, build.matrix_product(left, right), attributes)


def _baddbmm(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    x, left, right = operands
    _require_rank(3, batch1=left, batch2=right)
    return _plus_product(x, build.matrix_product(left, right), attributes)


ADDMM = composite(
    "addmm",
    (INPUT, tensor("mat1"), tensor("mat2"), number("beta", 1), number("alpha", 1)),
    _addmm,
    "torch.addmm({input}, {mat1}, {mat2}, beta={beta}, alpha={alpha})",
    "`beta * input + alpha * (mat1 @ mat2)`.",
)
BADDBMM = composite(
    "baddbmm",
    (INPUT, tensor("batch1"), tensor("batch2"), number("beta", 1), number("alpha", 1)),
    _baddbmm,
    "torch.baddbmm({input}, {batch1}, {batch2}, beta={beta}, alpha={alpha})",
    "`beta * input + alpha * (batch1 @ batch2)`, batch by batch.",
)


def _linear(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    x, weight, bias = unpack(operands, attributes, "input", "weight", "bias")
    assert x is not None and weight is not None
    _require_rank(2, weight=weight)
    outputs, inputs = weight.shape
    if not x.type.rank or x.shape[-1] != inputs:
        raise OperationError(
            f"the input's shape {show(x.shape)} does not fit the weight's {show(weight.shape)}",
            f"the input's last size must be {inputs}",
        )
    result = _times_matrix(x, build.transpose(weight))
    if bias is None:
        return result
    if bias.shape != (outputs,) or bias.dtype is not x.dtype:
        raise OperationError(
            f"bias is {bias.type}, and {x.dtype.value}[{outputs}] is needed",
        )
    return build.add(result, bias)


LINEAR = composite(
    "linear",
    (INPUT, tensor("weight"), BIAS),
    _linear,
    "F.linear({input}, {weight}, {bias})",
    "`input @ weight.T + bias`, over the last dim.",
)

RECORDS = (MATMUL, BMM, ADDMM, BADDBMM, LINEAR)
