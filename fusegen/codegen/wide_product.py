"""The text of a float32 product's form for tiles whose range is too wide for float16 parts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fusegen.codegen.kernel_text import contiguous, kernel_arguments
from fusegen.codegen.matrix_text import MatrixText, matrix_text
from fusegen.codegen.scope import Scope
from fusegen.codegen.tensor_product import TensorProductText, tensor_product_text
from fusegen.plan.kernels.product import ProductPlan
from fusegen.plan.kernels.product_forms import WgmmaForm
from fusegen.plan.kernels.split_product import WideForm

# Elements of an access.
VECTOR = 4


@dataclass(frozen=True)
class WideText:
    """What the skeleton `wide_product.cu.j2` fills in: the kernel's name and arguments, how it
    reads the operands, the `conditions` for that, and its epilogue, in the terms of the tensor
    cores' skeleton."""

    kernel: str
    parameters: tuple[str, ...]
    arguments: tuple[str, ...]
    operands: tuple[MatrixText, ...]
    conditions: tuple[str, ...]
    epilogue: TensorProductText


def wide_text(
    plan: ProductPlan, cores: WgmmaForm, form: WideForm, scope: Scope, host: Scope
) -> WideText:
    """Fill the skeleton from the plan; `scope` is this kernel's own, `host` the launcher's."""
    left = matrix_text("left", form.left, scope, host)
    right = matrix_text("right", form.right, scope, host)
    conditions = [contiguous(host, buffer) for buffer in scope.loads if buffer in host.strided]
    for operand, lines in ((left, "rows"), (right, "columns")):
        neighbours = "depths" if operand.neighbours == "in_depth" else lines
        conditions += [f"{neighbours} % {VECTOR} == 0", *operand.conditions]
    kernel = f"{plan.name}_wide_kernel"
    tile = replace(cores, rows=form.rows, columns=form.columns, neighbours=form.neighbours)
    return WideText(
        kernel,
        scope.parameters,
        kernel_arguments(scope, host),
        (left, right),
        tuple(dict.fromkeys(conditions)),
        tensor_product_text(plan, tile, kernel, scope, host),
    )
