"""Short ways to write pointwise records."""

from __future__ import annotations

from fusegen.ir.dtypes import DType
from fusegen.ops.inference import Accepts, elementwise
from fusegen.ops.parameters import INPUT, OTHER
from fusegen.ops.record import Gradient, Near, Parameter, Pointwise


def unary(
    name: str,
    cuda: str,
    twin: str,
    summary: str,
    *,
    cost: int = 1,
    accepts: Accepts = Accepts.FLOATS,
    result: DType | None = None,
    floating: bool = False,
    near: Near | None = None,
    exact: bool = False,
    parameters: tuple[Parameter, ...] = (),
    gradient: Gradient | None = None,
) -> Pointwise:
    """An operation on one tensor, `input`, and the numbers in `parameters`."""
    return Pointwise(
        name,
        parameters=(INPUT, *parameters),
        infer=elementwise(accepts, result),
        twin=twin,
        summary=summary,
        cuda=cuda,
        cost=cost,
        floating=floating,
        near=near,
        exact=exact,
        gradient=gradient,
    )


def binary(
    name: str,
    cuda: str,
    twin: str,
    summary: str,
    *,
    cost: int = 1,
    accepts: Accepts = Accepts.ANY,
    result: DType | None = None,
    floating: bool = False,
    near: Near | None = None,
    exact: bool = False,
    gradient: Gradient | None = None,
) -> Pointwise:
    """An operation on two tensors, `input` and `other`, either of which may be a number."""
    return Pointwise(
        name,
        parameters=(INPUT, OTHER),
        infer=elementwise(accepts, result),
        twin=twin,
        summary=summary,
        cuda=cuda,
        cost=cost,
        floating=floating,
        near=near,
        exact=exact,
        gradient=gradient,
    )
