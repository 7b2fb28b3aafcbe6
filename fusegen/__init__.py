"""fusegen: from a tiny op-graph language to fused CUDA kernels that run as PyTorch modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fusegen.runtime.generated_module import NnModuleClass

__version__ = "0.1.0"
__all__ = ["__version__", "compile", "load"]


def load(
    path: str | PathLike[str],
    *,
    model: str | None = None,
    target: str = "cuda",
    check: bool = False,
) -> NnModuleClass:
    """The `nn.Module` class of a `.fuse` file's model.

    The class takes the model's arguments as its constructor's, with the defaults in the file, and
    `device` and `dtype` as the layers of `torch.nn` do. Kernels are built when a tensor on their
    device first needs them: a CUDA tensor for the target `cuda` (tensors elsewhere are computed by
    PyTorch's own operations), a CPU tensor for `emulate`. `model` names one of several models;
    `check` lets `fusegen.runtime.emulation` watch the emulated kernels' memory accesses.

    Raises SourceError or FusegenError, whose text says what is wrong and where.
    """
    from fusegen.compiler.choices import target_named
    from fusegen.compiler.loading import load_model
    from fusegen.frontend.source import Source

    return load_model(Source.read(path), model=model, target=target_named(target), check=check)


def compile(
    path: str | PathLike[str],
    out: str | PathLike[str],
    *,
    model: str | None = None,
    arguments: Mapping[str, bool | int | float | str] | None = None,
    target: str = "cuda",
    architectures: Sequence[str] = (),
    dtypes: Sequence[str] = ("float32",),
    precisions: Sequence[str] = (),
    autocasts: Sequence[str] = (),
    inference_only: bool = False,
    emit_only: bool = False,
) -> None:
    """Write a folder with a model's kernels, their binding, its Python module and its plan, and
    build it. The folder needs no fusegen: its Python module holds the `nn.Module` class.

    `arguments` are the model's; `architectures` (`sm_90a`) are those of this machine's GPUs unless
    given; `dtypes` those of inputs and parameters that pin none. Matrix products of float32 are
    built in full precision, and for the `precisions` given, which are settings of
    `torch.set_float32_matmul_precision`; a setting that was not built has full precision.
    `autocasts` are the dtypes that `torch.autocast` may convert a float32 module's tensors to; for
    others PyTorch's operations stand in, as they do for the operators that a training needs where
    `inference_only` leaves those out. Raises SourceError or FusegenError, and writes nothing then.
    """
    from pathlib import Path

    from fusegen.compiler import compile_to_folder
    from fusegen.frontend.source import Source

    compile_to_folder(
        Source.read(path),
        Path(out),
        arguments=arguments or {},
        target=target,
        architectures=architectures,
        dtypes=dtypes,
        precisions=precisions,
        autocasts=autocasts,
        inference_only=inference_only,
        emit_only=emit_only,
        model=model,
    )
