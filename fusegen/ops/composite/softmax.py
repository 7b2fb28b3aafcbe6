"""Softmax and its logarithm, shifted by the greatest.

Both are computed in float32 for the 16-bit floats and rounded once, at the end.
"""

from __future__ import annotations

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Attributes, Node
from fusegen.ops import build
from fusegen.ops.composite.define import composite
from fusegen.ops.inference import Accepts, normal_dim, require
from fusegen.ops.parameters import (
    DIM,
    DTYPE,
    INPUT,
)


def _shifted(operands: tuple[Node, ...], attributes: Attributes) -> tuple[Node, int, DType]:
    """The operand less its maximum along `dim`, as at least one-dimensional; `dim`; the result's
    dtype."""
    wanted = attributes["dtype"]
    x = build.cast(operands[0], wanted) if isinstance(wanted, DType) else operands[0]
    require(x.type, Accepts.FLOATS)
    dim = normal_dim(attributes.integer("dim"), x.type.rank)
    wide = build.to_compute(x)
    wide = wide if x.type.rank else build.reshape(wide, (1,))
    return build.sub(wide, build.amax(wide, (dim,), keepdim=True)), dim, x.dtype


def _softmax(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    shifted, dim, dtype = _shifted(operands, attributes)
    weights = build.exp(shifted)
    result = build.div(weights, build.total(weights, (dim,), keepdim=True))
    return build.as_result(build.reshape(result, operands[0].shape), dtype)


def _log_softmax(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    shifted, dim, dtype = _shifted(operands, attributes)
    result = build.sub(shifted, build.log(build.total(build.exp(shifted), (dim,), keepdim=True)))
    return build.as_result(build.reshape(result, operands[0].shape), dtype)


def _along_dim(node: Node, gradient: Node) -> tuple[Node, Node, int]:
    """The result and its gradient in the compute type, as at least one-dimensional, and `dim`."""
    dim = normal_dim(node.attributes.integer("dim"), node.type.rank)
    shape = node.shape or (1,)
    result, upstream = (build.reshape(build.to_compute(x), shape) for x in (node, gradient))
    return result, upstream, dim


def _softmax_gradient(node: Node, gradient: Node) -> tuple[Node]:
    result, upstream, dim = _along_dim(node, gradient)
    part = build.total(build.mul(upstream, result), (dim,), keepdim=True)
    return (build.reshape(build.mul(result, build.sub(upstream, part)), node.shape),)


def _log_softmax_gradient(node: Node, gradient: Node) -> tuple[Node]:
    result, upstream, dim = _along_dim(node, gradient)
    part = build.mul(build.exp(result), build.total(upstream, (dim,), keepdim=True))
    return (build.reshape(build.sub(upstream, part), node.shape),)


SOFTMAX = composite(
    "softmax",
    (INPUT, DIM, DTYPE),
    _softmax,
    "torch.softmax({input}, {dim}, dtype={dtype})",
    "Exponentials along `dim` scaled to sum to 1.",
    _softmax_gradient,
)
LOG_SOFTMAX = composite(
    "log_softmax",
    (INPUT, DIM, DTYPE),
    _log_softmax,
    "torch.log_softmax({input}, {dim}, dtype={dtype})",
    "The logarithm of softmax.",
    _log_softmax_gradient,
)


RECORDS = (SOFTMAX, LOG_SOFTMAX)
