"""`Parameter` and `Buffer`: the tensors a model declares outside of a layer."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fusegen.errors import Span
from fusegen.frontend.arguments import Argument, attributes_of, bind
from fusegen.frontend.values import Problem, TensorClass, Value, describe
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Attributes, Role
from fusegen.ir.integers import Integer
from fusegen.ops.record import Parameter, ParameterKind

# The words for initial values; a number fills the tensor with it.
INITIALISERS = ("zeros", "ones", "normal", "uniform")
# The greatest finite numbers: (2 - 2^-10) 2^15, (2 - 2^-7) 2^127, (2 - 2^-23) 2^127.
_GREATEST = {
    DType.FLOAT16: 65504.0,
    DType.BFLOAT16: (2 - 2.0**-7) * 2.0**127,
    DType.FLOAT32: (2 - 2.0**-23) * 2.0**127,
}


def bare_tensor(callee: TensorClass, arguments: Sequence[Argument], span: Span) -> Attributes:
    """The attributes `shape` (ints), `init` (a word of INITIALISERS or a number) and `dtype` (None
    to follow the module) of a declaration.

    Raises Problem for sizes that are no list, one that is not constant, an initial value that is
    unknown or none of the dtype, and a Parameter that is not floating-point, which could not be
    trained.
    """
    given = [argument for argument in arguments if argument.name is None]
    if len(given) > 1 and not any(isinstance(a.value, (tuple, float, str)) for a in given[:2]):
        raise Problem(
            f"the shape of a {callee.name} is one list, and its initial value comes after that",
            given[1].span,
            "write the sizes in brackets: [a, b]",
        )
    values = bind(callee.name, _parameters(callee.role), arguments, span)
    shape, dtype = values["shape"], values["dtype"]
    assert isinstance(shape, tuple)
    if not all(isinstance(size, int) and size >= 0 for size in shape):
        raise Problem(
            f"the shape of a {callee.name} must be constants from 0 up, but it is "
            f"[{', '.join(map(str, shape))}]",
            span,
            "a size known only at run time cannot shape a tensor of the module"
            if any(isinstance(size, Integer) for size in shape)
            else None,
        )
    if callee.role is Role.PARAMETER and isinstance(dtype, DType) and not dtype.is_float:
        raise Problem(
            f"a Parameter is trained, so it cannot be {dtype.value}",
            span,
            "declare it with Buffer",
        )
    if isinstance(dtype, DType) and not _holds(dtype, values["init"]):
        raise Problem(
            f"'init' of {callee.name} is {describe(values['init'])}, which {dtype.value} cannot be",
            span,
        )
    return attributes_of(values)


def _holds(dtype: DType, init: Value) -> bool:
    """Whether a tensor of that dtype can have these initial values as they are."""
    if isinstance(init, str):
        return dtype.is_float or init in ("zeros", "ones")
    assert isinstance(init, (int, float))
    if dtype is DType.BOOL:
        return init in (0, 1)
    if dtype.is_float:
        return not math.isfinite(init) or abs(init) <= _GREATEST.get(dtype, math.inf)
    bits = 8 * dtype.itemsize
    least, beyond = (0, 1 << bits) if dtype is DType.UINT8 else (-1 << bits - 1, 1 << bits - 1)
    return math.isfinite(init) and init == int(init) and least <= init < beyond


def _parameters(role: Role) -> tuple[Parameter, ...]:
    return (
        Parameter("shape", ParameterKind.SIZES),
        Parameter(
            "init",
            ParameterKind.SCALAR,
            "normal" if role is Role.PARAMETER else "zeros",
            INITIALISERS,
        ),
        Parameter("dtype", ParameterKind.DTYPE, None),
    )
