"""Conversion between dtypes."""

from __future__ import annotations

from fusegen.ir.graph import Attributes, Node, TensorType
from fusegen.ops.parameters import INPUT
from fusegen.ops.record import Parameter, ParameterKind, Pointwise


def _infer(types: tuple[TensorType, ...], attributes: Attributes) -> TensorType:
    return TensorType(types[0].shape, attributes.dtype("dtype"))


def _gradient(_: Node, gradient: Node) -> tuple[Node]:
    return (gradient,)  # in the operand's dtype, as every gradient


CAST = Pointwise(
    "to",
    parameters=(INPUT, Parameter("dtype", ParameterKind.DTYPE)),
    infer=_infer,
    twin="{input}.to({dtype})",
    summary="The same values in another dtype, rounded to it.",
    cuda="fusegen::cast<{dtype}>({input})",
    gradient=_gradient,
)


def _infer_widened(types: tuple[TensorType, ...], attributes: Attributes) -> TensorType:
    return TensorType(types[0].shape, types[0].dtype.compute)


# For what PyTorch keeps in the compute type whatever the module's dtype is.
WIDEN = Pointwise(
    "widen",
    parameters=(INPUT,),
    infer=_infer_widened,
    twin="{input}.to(torch.promote_types({input}.dtype, torch.float32))",
    summary="The same values in the type that arithmetic on them is done in.",
    cuda="{input}",
    exact=True,
    gradient=_gradient,
)

# The end of an operation that works in the compute type: fused with what follows, its result stays
# as exact as any other value in a register that is not stored.
NARROW = Pointwise(
    "narrow_type",
    parameters=(INPUT, Parameter("dtype", ParameterKind.DTYPE)),
    infer=_infer,
    twin="{input}.to({dtype})",
    summary="The same values as a 16-bit type, rounded only where they are stored.",
    cuda="{input}",
    cost=0,
    gradient=_gradient,
)


def widens(node: Node) -> bool:
    """Whether the node has the values of a float operand in a type of more bytes."""
    if node.operation not in (CAST, WIDEN):
        return False
    before, after = node.operands[0].dtype, node.dtype
    return before.is_float and after.is_float and after.itemsize > before.itemsize


def _infer_same(types: tuple[TensorType, ...], _: Attributes) -> TensorType:
    return types[0]


# A value that is compared for equality with what was made from it must be the very same: rounded
# as storing it does, and not computed a second time, which may round otherwise on the way. Kernels
# use other values so, too, that one stores for another (`plan/rounding.py`).
AS_STORED = Pointwise(
    "as_stored",
    parameters=(INPUT, Parameter("dtype", ParameterKind.DTYPE)),
    infer=_infer_same,
    twin="{input}.to({dtype})",
    summary="The same values as they are in memory, where a kernel has stored them.",
    cuda="fusegen::cast<{dtype}>({input})",
    gradient=_gradient,
)
