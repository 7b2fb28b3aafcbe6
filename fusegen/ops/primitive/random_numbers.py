"""Random choices as functions of a seed and of where an element stands."""

from __future__ import annotations

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Attributes, TensorType
from fusegen.ops.inference import broadcast
from fusegen.ops.parameters import integer, sizes, tensor
from fusegen.ops.record import Pointwise, Positions


def _infer_positions(_: tuple[TensorType, ...], attributes: Attributes) -> TensorType:
    return TensorType(attributes.sizes("shape"), DType.INT64)


POSITIONS = Positions(
    "positions",
    parameters=(sizes("shape"),),
    infer=_infer_positions,
    twin="torch.arange(torch.Size({shape}).numel()).reshape({shape})",
    summary="Of each element of that shape, its place in row-major order.",
)


def _infer_kept(types: tuple[TensorType, ...], _: Attributes) -> TensorType:
    return TensorType(broadcast([t.shape for t in types]), DType.BOOL)


# An element is dropped with the probability `threshold` / 2^32.
KEPT = Pointwise(
    "kept",
    parameters=(tensor("seed"), tensor("position"), integer("threshold"), integer("number")),
    infer=_infer_kept,
    twin="_kept({seed}, {position}, {threshold}, {number})",
    summary="Whether dropout `number` of a model keeps the element at a position.",
    cuda="fusegen::is_kept({seed}, {position}, {threshold}, {number})",
    cost=24,  # some 60 instructions make four numbers, of which an element needs one
)

RECORDS = (POSITIONS, KEPT)
