"""Ahead of time: a folder with a model's sources, built libraries and Python module."""

from __future__ import annotations

import itertools
import json
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fusegen.codegen.python_module import Libraries
from fusegen.compiler.explanation import Explanation
from fusegen.compiler.sizes import assumed_sizes
from fusegen.compiler.specialisation import GENERATED, Specialisation
from fusegen.compiler.variant import (
    Variant,
    autocast_keys,
    make_variant,
    tf32_dtypes,
    variant_keys,
)
from fusegen.errors import FusegenError
from fusegen.ir.dtypes import DType
from fusegen.ops.autocast import Device
from fusegen.passes.autocast import Autocast
from fusegen.plan.cost import SizeHints, device_for
from fusegen.plan.precision import Precision
from fusegen.runtime.ahead_of_time import build_into
from fusegen.runtime.builder import SCRIPT_FILE, SCRIPT_HEAD, emit
from fusegen.runtime.emulator_library import LIBRARY
from fusegen.runtime.gpu import default_architectures
from fusegen.runtime.ninja_file import BUILD_FILE, built_names, library_name
from fusegen.runtime.request import BuildRequest, Target, namespace_of


def write_folder(
    chosen: Specialisation,
    out: Path,
    *,
    target: Target,
    architectures: Sequence[str],
    dtypes: Sequence[DType],
    precisions: Sequence[Precision],
    autocasts: Sequence[DType],
    inference_only: bool,
    emit_only: bool,
) -> None:
    """Write the folder `out`, and build it unless `emit_only`; nothing is written if that fails.

    float32 products are built in full precision, and in the `precisions` beside it. `autocasts` are
    the dtypes that there are operators for under autocast. With `inference_only` the operators for
    training are left out, and PyTorch differentiates the reference.

    Raises FusegenError where the folder cannot be written, is another model's or has a module of
    the user's own in the way, ToolchainError and BuildError.
    """
    with _in_words(out):
        _refuse_others_files(chosen, target, out)
        before = built_names(out)
    if target is Target.CUDA:
        chips = tuple(dict.fromkeys(architectures)) or default_architectures()
    elif architectures:
        raise FusegenError("the emulator has no GPU architectures", "leave --arch out")
    else:
        chips = ()
    device = Device.CUDA if target is Target.CUDA else Device.CPU
    under = _autocasts(chosen, device, autocasts, inference_only)
    keys = (
        *variant_keys(chosen, dtypes, precisions, gradients=not inference_only),
        *autocast_keys(chosen, under),
    )
    variants = [make_variant(chosen, key, device=device_for(chips)) for key in keys]
    differentiated = _differentiated(chosen, inference_only)
    requests = [
        variant.request(target, chips, differentiated=differentiated) for variant in variants
    ]
    namespaces = {request.name: namespace_of(request) for request in requests}
    libraries = _libraries(
        chosen, namespaces, target, dtypes, precisions, autocasts, inference_only
    )
    module = chosen.python_source(
        device.value, libraries, tf32_dtypes(keys), gradients=not inference_only, autocasts=under
    )
    with _in_words(out):
        if emit_only:
            emit(requests, out)
            for request in requests:  # one built before is of other sources
                (out / library_name(request)).unlink(missing_ok=True)
        else:
            build_into(requests, out)
        _remove_others(before, requests, target, out)
        (out / f"{chosen.stem}.py").write_text(module, encoding="utf-8")
        (out / "plan.json").write_text(_plan_json(chosen, variants), encoding="utf-8")


def _autocasts(
    chosen: Specialisation, device: Device, dtypes: Sequence[DType], inference_only: bool
) -> tuple[Autocast, ...]:
    """The kinds of autocast to these dtypes; FusegenError where there can be none."""
    if not dtypes:
        return ()
    if inference_only:
        raise FusegenError(
            "under autocast there are operators for inference and training together only",
            "leave out --inference-only or --autocast",
        )
    found = tuple(context for context in chosen.autocasts(device) if context.dtype in dtypes)
    if not found:
        raise FusegenError(
            f"model '{chosen.name}' has no kernels under autocast: an operation has no gradient "
            "here, or does not take the dtypes it would get",
            "leave out --autocast; PyTorch's operations run there",
        )
    return found


def _differentiated(chosen: Specialisation, inference_only: bool) -> str:
    """What tells the folder's operators from those of a loaded module in the same process, where
    gradients are computed in another way here: through PyTorch, or with one backward whatever
    outputs are used."""
    if inference_only:
        return "by PyTorch"
    several = len(chosen.graph(DType.FLOAT32, training=False).outputs) > 1
    return "by one backward" if several else ""


@contextmanager
def _in_words(out: Path) -> Iterator[None]:
    """What the system refuses in a folder, as a FusegenError."""
    try:
        yield
    except OSError as error:
        raise FusegenError(
            f"the folder '{out}' cannot be written: {error.strerror or error}",
            "name another folder with -o",
        ) from error


def _refuse_others_files(chosen: Specialisation, target: Target, out: Path) -> None:
    """A folder has one build file and one plan: those of one model. Nor is a module of the user's
    own written over, which may well have the model's name, nor a script."""
    module, mend = out / f"{chosen.stem}.py", f"name a folder for {chosen.name} of its own with -o"
    has_module = (out / "plan.json").exists() and (out / BUILD_FILE).exists()
    if has_module and not module.exists():
        raise FusegenError(f"the folder '{out}' holds another model's module", mend)
    if module.is_file() and GENERATED not in module.read_text(encoding="utf-8", errors="replace"):
        raise FusegenError(f"'{module}' was not written by fusegen, and stays as it is", mend)
    script = out / SCRIPT_FILE
    if target is Target.CUDA and script.exists() and not _is_own_script(script):
        raise FusegenError(f"'{script}' was not written by fusegen, and stays as it is", mend)


def _is_own_script(script: Path) -> bool:
    if not script.is_file():
        return False
    return script.read_text(encoding="utf-8", errors="replace").startswith(SCRIPT_HEAD)


def _remove_others(
    before: Sequence[str], requests: Sequence[BuildRequest], target: Target, out: Path
) -> None:
    """Remove the operators that an earlier compilation wrote into the folder, by the names that it
    built `before`, and this one has not: no build file and no module names them any more."""
    ours = {request.name for request in requests}
    for name in before:
        if name not in ours:
            for end in ("_binding.cpp", ".cu", ".so"):
                (out / f"{name}{end}").unlink(missing_ok=True)
    script = out / SCRIPT_FILE
    if target is Target.CUDA and before:
        (out / LIBRARY).unlink(missing_ok=True)
    elif target is Target.EMULATE and _is_own_script(script):
        script.unlink()


def _libraries(
    chosen: Specialisation,
    namespaces: dict[str, str],
    target: Target,
    dtypes: Sequence[DType],
    precisions: Sequence[Precision],
    autocasts: Sequence[DType],
    inference_only: bool,
) -> Libraries:
    file = chosen.program.source.filename.rpartition("/")[2]
    options: list[tuple[str, ...]] = [] if chosen.model is None else [("--model", chosen.model)]
    options += [("-D", f"{name}={value}") for name, value in chosen.arguments]
    if target is Target.EMULATE:
        options.append(("--target", "emulate"))
    if inference_only:
        options.append(("--inference-only",))
    options += [("--precision", precision.value) for precision in dict.fromkeys(precisions)]
    options += [("--autocast", dtype.value) for dtype in dict.fromkeys(autocasts)]
    options += [("--dtype", dtype.value) for dtype in dict.fromkeys(dtypes)]
    command = shlex.join(["fusegen", "compile", file, *itertools.chain(*options)])
    return Libraries(
        namespaces,
        command=command,
        mend="build it with build.sh in its folder"
        if target is Target.CUDA
        else "compile again without --emit-only",
        emulator=LIBRARY if target is Target.EMULATE else None,
    )


def _plan_json(chosen: Specialisation, variants: Sequence[Variant]) -> str:
    """The symbolic `sizes` that the figures are for, the first variant's plan, and where there are
    several, all by name."""
    first, *others = variants
    graph = chosen.graph(DType.FLOAT32, training=False)
    hints = SizeHints.of(graph)
    steps = {v.name: Explanation.of(v.plan, hints=hints).steps_as_json() for v in variants}
    content: dict[str, Any] = {"sizes": dict(assumed_sizes(graph, hints)), **steps[first.name]}
    if others:
        content["variants"] = steps
    return json.dumps(content, indent=2) + "\n"
