"""Arithmetic that PyTorch's functions offer beyond the plain operators."""

from __future__ import annotations

from functools import reduce

from fusegen.ir.dtypes import DType, Kind
from fusegen.ir.graph import Attributes, Node
from fusegen.ops import build
from fusegen.ops.composite.define import composite
from fusegen.ops.inference import Accepts, require
from fusegen.ops.operands import unpack
from fusegen.ops.parameters import INPUT, OTHER, integer, number, optional_tensor, tensor, text
from fusegen.ops.pointwise import arithmetic, functions
from fusegen.ops.record import CONSTANT, OperationError


def _scalar(attributes: Attributes, name: str) -> int | float:
    value = attributes[name]
    assert isinstance(value, (int, float))
    return value


def _scaled(operand: Node, alpha: int | float, dtype: DType) -> Node:
    """The second operand of a sum of this dtype, in which PyTorch scales it."""
    if isinstance(alpha, float) and not dtype.is_float:
        raise OperationError(
            f"alpha is {alpha}, and integers can only be scaled by an integer",
            "give an integer alpha, or convert the tensors to float32",
        )
    if operand.operation is CONSTANT:
        return build.constant(_scalar(operand.attributes, "value") * alpha, operand.dtype)
    if alpha == 1:
        return operand
    return build.cast(build.mul(build.cast(operand, dtype), alpha), dtype)


def _add(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    x, y = operands
    return build.add(x, _scaled(y, _scalar(attributes, "alpha"), build.add(x, y).dtype))


def _sub(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    x, y = operands
    return build.sub(x, _scaled(y, _scalar(attributes, "alpha"), build.sub(x, y).dtype))


ADD = composite(
    "add",
    (INPUT, OTHER, number("alpha", 1)),
    _add,
    "torch.add({input:number}, {other:number}, alpha={alpha})",
    "`input + alpha * other`, elementwise.",
)
SUB = composite(
    "sub",
    (INPUT, OTHER, number("alpha", 1)),
    _sub,
    "torch.sub({input:number}, {other:number}, alpha={alpha})",
    "`input - alpha * other`, elementwise.",
)


def _div(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    rounding = attributes["rounding_mode"]
    if rounding == "floor":
        return build.call(arithmetic.FLOOR_DIVIDE, operands)
    if rounding == "trunc":
        return build.call(arithmetic.TRUNCATE_DIVIDE, operands)
    return build.div(*operands)


def _div_gradient(node: Node, gradient: Node) -> tuple[Node | None, ...]:
    """PyTorch differentiates a rounded quotient here, to 0, but not `floor_divide`."""
    if node.attributes["rounding_mode"] is not None:
        return tuple(build.zeros(node.shape, gradient.dtype) for _ in node.operands)
    assert arithmetic.DIVIDE.gradient is not None
    return arithmetic.DIVIDE.gradient(build.div(*node.operands), gradient)


DIV = composite(
    "div",
    (INPUT, OTHER, text("rounding_mode", None, ("floor", "trunc"))),
    _div,
    "torch.div({input:number}, {other:number}, rounding_mode={rounding_mode})",
    "The quotient, elementwise; that of integers is floating-point unless rounded.",
    _div_gradient,
)


def _pow(operands: tuple[Node, ...], _: Attributes) -> Node:
    """A power by a constant as PyTorch computes it: by products, roots and reciprocals where the
    exponent is a small one, which decides what becomes of infinities and signed zeros."""
    base, exponent = operands
    if exponent.operation is not CONSTANT or build.is_number(base):
        return build.power(base, exponent)
    value = _scalar(exponent.attributes, "value")
    if base.dtype.kind is Kind.INTEGER and isinstance(value, int) and value < 0:
        raise OperationError(
            f"an integer cannot be raised to the negative integer power {value}",
            f"give the exponent as a float: {float(value)}",
        )
    if value == 2 and base.dtype.kind is not Kind.BOOL:
        return build.square(base)
    if not base.dtype.is_float:
        return build.power(base, exponent)
    if value == 0.5:
        return build.sqrt(base)
    if value == -0.5:
        return build.reciprocal(build.sqrt(build.to_compute(base)))
    if value == 3:
        return build.mul(build.mul(base, base), base)
    if value == -1:
        return build.reciprocal(base)
    if value == -2:
        return build.reciprocal(build.square(base))
    return build.power(base, exponent)


def _pow_gradient(node: Node, gradient: Node) -> tuple[Node | None, ...]:
    """By a constant, the slope's power is computed as the operation's is."""
    base, exponent = node.operands
    if exponent.operation is not CONSTANT or build.is_number(base):
        own = build.power(base, exponent)
        assert arithmetic.POWER.gradient is not None
        return arithmetic.POWER.gradient(own, gradient)
    value = _scalar(exponent.attributes, "value")
    if value == 0:
        return build.zeros(node.shape, node.dtype), None
    if value == 1:
        return gradient, None
    slope = build.mul(build.call(POW, (base, value - 1)), value)
    return build.mul(gradient, slope), None


POW = composite(
    "pow",
    (INPUT, tensor("exponent")),
    _pow,
    "torch.pow({input:number}, {exponent:number})",
    "`input` to the power of `exponent`, elementwise.",
    _pow_gradient,
)


def _clamp(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    x, least, greatest = unpack(operands, attributes, "input", "min", "max")
    assert x is not None
    if least is None and greatest is None:
        raise OperationError("clamp needs min, max, or both")
    if least and greatest and (least.type.rank == 0) is not (greatest.type.rank == 0):
        raise OperationError(
            "clamp takes two numbers or two tensors as its bounds, not one of each",
            "use maximum and minimum, which take any mixture",
        )
    result = x if least is None else build.maximum(x, least)
    return result if greatest is None else build.minimum(result, greatest)


def _clamp_gradient(node: Node, gradient: Node) -> tuple[Node | None, ...]:
    """All of it to the input from bound to bound, else to the bound that holds; where the bounds
    have changed sides, to the greatest."""
    x, least, greatest = unpack(node.operands, node.attributes, "input", "min", "max")
    assert x is not None
    found: list[Node] = []
    inside = [build.ge(x, least)] if least is not None else []
    inside += [build.le(x, greatest)] if greatest is not None else []
    found.append(build.where(reduce(build.both, inside), gradient, 0))
    if least is not None:
        below = build.lt(x, least)
        holds = below if greatest is None else build.both(below, build.lt(least, greatest))
        found.append(build.where(holds, gradient, 0))
    if greatest is not None:
        above = build.gt(x, greatest)
        holds = above if least is None else build.either(above, build.gt(least, greatest))
        found.append(build.where(holds, gradient, 0))
    return tuple(found)


CLAMP = composite(
    "clamp",
    (INPUT, optional_tensor("min"), optional_tensor("max")),
    _clamp,
    "torch.clamp({input}, {min:number}, {max:number})",
    "`input` held between `min` and `max`; NaN stays NaN.",
    _clamp_gradient,
)


def _round(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    decimals = attributes.integer("decimals")
    (x,) = operands
    if decimals == 0:
        return build.call(functions.ROUND, (x,))
    require(x.type, Accepts.FLOATS)
    wide = build.to_compute(x)
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        result = build.div(build.call(functions.ROUND, (build.mul(wide, scale),)), scale)
    else:
        result = build.mul(build.call(functions.ROUND, (build.div(wide, scale),)), scale)
    return build.as_result(result, x.dtype)


ROUND = composite(
    "round",
    (INPUT, integer("decimals", 0)),
    _round,
    "torch.round({input}, decimals={decimals})",
    "Rounded to `decimals` decimals, halves to even.",
)

RECORDS = (ADD, SUB, DIV, POW, CLAMP, ROUND)
