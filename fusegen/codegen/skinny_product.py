"""The text of a matrix product's form for few rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fusegen.codegen.c_text import storage_type
from fusegen.codegen.kernel_text import contiguous, kernel_arguments, sizes_of
from fusegen.codegen.scope import Scope
from fusegen.codegen.tile_epilogue import RowEpilogueText, element_lines, row_epilogue
from fusegen.ir.integers import ZERO, Atom
from fusegen.plan.kernels import ElementEpilogue, ProductPlan, SkinnyForm, Tile
from fusegen.plan.matrix_views import Major, MatrixView, run_stride
from fusegen.plan.skinny import THREAD_COLUMNS

WARP = 32
FLOAT_BYTES = 4


@dataclass(frozen=True)
class SkinnyOperandText:
    """An operand in the launcher's terms: `pointer` to its first matrix, and its strides.

    `runs` declares the strides of the tensor's runs of dims, if it has any, and `conditions` are
    those under which the operand can be read this way.
    """

    name: str
    type: str
    pointer: str
    stride: str
    batch_stride: str
    runs: str
    conditions: tuple[str, ...]


@dataclass(frozen=True)
class SkinnyText:
    """What the skeleton `skinny_product.cu.j2` fills in.

    There is a kernel for each of `rows`. The block's sums lie in a tile of `tile_rows` rows with
    `pitch` elements each; behind it and the epilogue's further slots, `shared_bytes` in all, is
    room for `partial_bytes` of the warps' sums.
    """

    parameters: tuple[str, ...]
    arguments: tuple[str, ...]
    operands: tuple[SkinnyOperandText, ...]
    conditions: tuple[str, ...]
    rows: tuple[int, ...]
    columns: int
    threads: int
    tile_rows: int
    pitch: int
    neighbours: str
    element_lines: tuple[str, ...]
    epilogue: RowEpilogueText | None
    shared_bytes: int
    partial_bytes: int


def skinny_text(plan: ProductPlan, form: SkinnyForm, scope: Scope, host: Scope) -> SkinnyText:
    """Fill the skeleton from the plan; `scope` is this kernel's own, `host` the launcher's."""
    epilogue = plan.epilogue
    most = max(form.rows)
    tile = Tile(rows=most, columns=form.columns, depth=0, used_columns=form.columns)
    warps = form.columns // THREAD_COLUMNS
    lines: tuple[str, ...] = ()
    rows = None
    if isinstance(epilogue, ElementEpilogue):
        lines = element_lines(epilogue, scope, f"tile[tile_row * {tile.pitch} + tile_column]")
        shared_bytes = tile.rows * tile.pitch * FLOAT_BYTES
    else:
        rows = row_epilogue(epilogue, tile, plan.accumulator, scope)
        shared_bytes = rows.shared_bytes
    in_columns = form.right.major is Major.LINE
    operands = (_operand("left", form.left, host), _operand("right", form.right, host))
    depth = 16 // plan.left.dtype.itemsize
    conditions = [contiguous(host, buffer) for buffer in scope.loads if buffer in host.strided]
    conditions += [f"depths % {depth} == 0"]
    if in_columns:
        conditions.append(f"columns % {THREAD_COLUMNS} == 0")
    return SkinnyText(
        scope.parameters,
        kernel_arguments(scope),
        operands,
        tuple(conditions),
        form.rows,
        form.columns,
        warps * WARP,
        tile.rows,
        tile.pitch,
        "in_columns" if in_columns else "in_depth",
        lines,
        rows,
        -(-shared_bytes // 16) * 16,
        warps * most * form.columns * FLOAT_BYTES if in_columns else 0,
    )


def _operand(name: str, view: MatrixView, host: Scope) -> SkinnyOperandText:
    array = f"{name}_run"
    strides: dict[Atom, str] = {run_stride(i): f"{array}[{i}]" for i in range(len(view.runs))}
    scope = replace(host, symbols={**host.symbols, **strides})
    buffer = scope.buffer(view.buffer)
    pointer = buffer if view.base == ZERO else f"{buffer} + {scope.factor(view.base)}"
    stride, batch_stride = scope.text(view.outer_stride), scope.text(view.batch_stride)
    conditions = [f"is_aligned({pointer}, 16)"]
    vector = 16 // view.buffer.dtype.itemsize
    conditions += [f"({text}) % {vector} == 0" for text in (stride, batch_stride) if text != "0"]
    runs = ""
    if view.runs:
        ends = ", ".join(map(str, view.runs))
        runs = f"int64_t {array}[{len(view.runs)}];"
        merged = f"{buffer}_strides, {sizes_of(scope, view.buffer)}, {{{ends}}}, {array}"
        conditions = [
            f"merge_dims({merged})",
            f"{scope.text(view.inner_stride)} == 1",
            *conditions,
        ]
    return SkinnyOperandText(
        name,
        storage_type(view.buffer.dtype),
        pointer,
        stride,
        batch_stride,
        runs,
        tuple(conditions),
    )
