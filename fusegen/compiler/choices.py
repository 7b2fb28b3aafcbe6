"""What callers of the Python API choose by name."""

from __future__ import annotations

from collections.abc import Sequence

from fusegen.compiler.specialisation import MODULE_DTYPES
from fusegen.errors import FusegenError
from fusegen.frontend.report import listing
from fusegen.ir.dtypes import DType
from fusegen.plan.precision import Precision
from fusegen.runtime.request import Target


def check_lists(**given: Sequence[str]) -> None:
    """Raise FusegenError for an argument that is one string where several are taken: each of its
    characters would count as one."""
    for argument, names in given.items():
        if isinstance(names, str):
            raise FusegenError(
                f"'{argument}' is the string '{names}', but must be a list of strings",
                f"write {argument}=['{names}']",
            )


def target_named(name: str) -> Target:
    """The target of that name; FusegenError if there is none."""
    names = [target.value for target in Target]
    if name not in names:
        raise FusegenError(f"there is no target {name!r}", f"targets are {listing(names)}")
    return Target(name)


def module_dtype_named(name: str) -> DType:
    """The dtype of that name; FusegenError if a module cannot have it."""
    names = [dtype.value for dtype in MODULE_DTYPES]
    if name not in names:
        raise FusegenError(f"a module's dtype cannot be {name!r}", f"it is one of {listing(names)}")
    return DType(name)


def autocast_named(name: str) -> DType:
    """The dtype of that name; FusegenError if autocast has no kernels in it."""
    names = [DType.BFLOAT16.value, DType.FLOAT16.value]
    if name not in names:
        raise FusegenError(f"there is no autocast to {name!r}", f"it is to {listing(names)}")
    return DType(name)


def precision_named(name: str) -> Precision:
    """The precision that a setting of `torch.set_float32_matmul_precision` asks for; FusegenError
    if there is no such setting."""
    settings = {**{p.value: p for p in Precision}, "medium": Precision.HIGH}
    if name not in settings:
        raise FusegenError(
            f"there is no precision {name!r}", f"precisions are {listing([*settings])}"
        )
    return settings[name]
