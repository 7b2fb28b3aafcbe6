"""How matrix products of float32 operands are computed."""

from __future__ import annotations

from enum import Enum

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, topological
from fusegen.ops.record import Product


class Precision(Enum):
    """What float32 products may round: the settings of `torch.set_float32_matmul_precision`.

    `medium` allows bfloat16 and TF32 alike; the kernels take TF32, so it has none of its own.
    """

    HIGHEST = "highest"  # as float32 arithmetic
    HIGH = "high"  # operands as TF32: float32's range, 10 bits behind the point


def float32_products(graph: Graph) -> bool:
    """Whether a decomposed graph has products that the precision is about."""
    return any(
        isinstance(node.operation, Product) and node.dtype is DType.FLOAT32
        for node in topological(graph.roots)
    )
