"""Conversion between dtypes."""

from __future__ import annotations

from fusegen.ir.graph import Attributes, TensorType
from fusegen.ops.parameters import INPUT
from fusegen.ops.record import Parameter, ParameterKind, Pointwise


def _infer(types: tuple[TensorType, ...], attributes: Attributes) -> TensorType:
    return TensorType(types[0].shape, attributes.dtype("dtype"))


CAST = Pointwise(
    "to",
    parameters=(INPUT, Parameter("dtype", ParameterKind.DTYPE)),
    infer=_infer,
    twin="{input}.to({dtype})",
    summary="The same values in another dtype, rounded to it.",
    cuda="fusegen::cast<{dtype}>({input})",
)
