"""Whether and how a matrix product can use Hopper's tensor cores."""

from __future__ import annotations

from fusegen.ir.dtypes import DType
from fusegen.ir.integers import ONE, ZERO, Integer, Symbol
from fusegen.plan.expressions import Load
from fusegen.plan.kernels import MatrixView, ProductAxes, TensorCores
from fusegen.plan.precision import Precision

TENSOR_DTYPES = (DType.FLOAT16, DType.BFLOAT16)
# Two warpgroups with 64 rows each; 128 bytes of K a step, the widest swizzle.
ROWS = 128
DEPTH_BYTES = 128
# Wide tiles have the higher ratio of arithmetic to traffic; 128 float32 registers a thread.
WIDE, NARROW = 256, 128
# As many stages as fit into shared memory beside the barriers: 48 KB each with wide tiles, 32 KB
# with narrow ones.
STAGES = {WIDE: 4, NARROW: 6}
# The result's columns lie in the accumulators in blocks of 8, two neighbours a thread, which it
# stores with one access: a result with an odd number of columns has none.
BLOCK_COLUMNS = 8
PAIR = 2


def tensor_cores(
    left: Load, right: Load, axes: ProductAxes, width: int | None, precision: Precision
) -> TensorCores | None:
    """The tensor-core form for these operands, or None where there is none.

    `width` is the number of neighbouring columns that an epilogue works on together, if any.
    float32 operands are read as TF32, where `precision` allows it.
    """
    if left.dtype is not right.dtype:
        return None
    as_tf32 = left.dtype is DType.FLOAT32 and precision is Precision.HIGH
    if left.dtype not in TENSOR_DTYPES and not as_tf32:
        return None
    left_view = _view(left, axes.batch, axes.row, axes.depth)
    right_view = _view(right, axes.batch, axes.column, axes.depth)
    if left_view is None or right_view is None:
        return None
    if width is not None and width % BLOCK_COLUMNS:
        return None
    size = axes.columns.constant
    if size is not None and size % PAIR:
        return None
    columns = NARROW if size is not None and size <= NARROW else WIDE
    if width is not None and columns % width:
        return None
    depth = DEPTH_BYTES // left.dtype.itemsize
    return TensorCores(ROWS, columns, depth, STAGES[columns], left_view, right_view)


def _view(load: Load, batch: Integer, line: Integer, depth: Integer) -> MatrixView | None:
    """The load's offset as a linear function of batch, line and depth, if it is one."""
    strides = []
    rest = load.offset
    for axis in (batch, line, depth):
        stride = _coefficient(rest, axis.alone)
        if stride is None:
            return None
        strides.append(stride)
        rest = rest - stride * axis
    batch_stride, line_stride, depth_stride = strides
    if depth_stride != ONE:
        return None
    return MatrixView(load.buffer, rest, batch_stride, line_stride)


def _coefficient(value: Integer, symbol: Symbol) -> Integer | None:
    """What multiplies `symbol` in a sum in which it occurs only as a factor; None if elsewhere."""
    total = ZERO
    for monomial, coefficient in value.terms:
        term = Integer(((monomial, coefficient),))
        if symbol not in term.symbols():
            continue
        rest = tuple(atom for atom in monomial if atom != symbol)
        remaining = Integer(((rest, coefficient),))
        if len(rest) != len(monomial) - 1 or symbol in remaining.symbols():
            return None
        total = total + remaining
    return total
